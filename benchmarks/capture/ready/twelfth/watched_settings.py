"""A denoiser reads its strength from a JSON file again whenever the file's time of change has moved."""

import json
import os
import tempfile

import torch

import graphsafe


class Watched:
    def __init__(self, path):
        self.path, self.stamp, self.values = path, None, {}

    def __getitem__(self, name):
        stamp = os.stat(self.path).st_mtime_ns
        if stamp != self.stamp:
            with open(self.path) as f:
                self.values = json.load(f)
            self.stamp = stamp
        return self.values[name]


def build(device):
    handle, path = tempfile.mkstemp(suffix=".json")
    os.write(handle, b'{"strength": 0.2}')
    os.close(handle)
    settings = Watched(path)
    weight = torch.randn(5, 1, 3, device=device)

    def denoise(x):
        detail = torch.nn.functional.conv1d(x, weight, padding=1, groups=5)
        return torch.sign(detail) * (detail.abs() - settings["strength"]).clamp(min=0)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(1, 5, 40))
        if k == 96:
            with open(path, "w") as f:
                json.dump({"strength": 0.6}, f)
            os.utime(path, ns=(10**18, 2 * 10**18))

    return graphsafe.Step(denoise, (torch.randn(1, 5, 40, device=device),), refresh=refresh)
