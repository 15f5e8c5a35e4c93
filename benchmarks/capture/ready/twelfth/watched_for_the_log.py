"""A denoiser notes when its settings file changed. The strength itself is a device tensor that the loop fills."""

import json
import os
import tempfile

import torch

import graphsafe


def build(device):
    handle, path = tempfile.mkstemp(suffix=".json")
    os.write(handle, b'{"strength": 0.2}')
    os.close(handle)
    strength = torch.full((), 0.2, device=device)
    weight = torch.randn(5, 1, 3, device=device)
    changes = []

    def denoise(x):
        stamp = os.stat(path).st_mtime_ns
        if not changes or changes[-1] != stamp:
            changes.append(stamp)
        detail = torch.nn.functional.conv1d(x, weight, padding=1, groups=5)
        return torch.sign(detail) * (detail.abs() - strength).clamp(min=0)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(1, 5, 40))
        if k % 30 == 29:
            with open(path, "w") as f:
                json.dump({"strength": 0.2 + k / 1000}, f)
            with open(path) as f:
                strength.fill_(json.load(f)["strength"])

    return graphsafe.Step(denoise, (torch.randn(1, 5, 40, device=device),), refresh=refresh)
