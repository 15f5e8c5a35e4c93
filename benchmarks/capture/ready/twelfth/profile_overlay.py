"""Tone mapper whose settings come from layered profiles: factory defaults, camera, shot."""

from collections import ChainMap

import torch

import graphsafe


class ToneMapper:
    def __init__(self, device):
        self.settings = ChainMap({"contrast": 1.2, "camera": "A"}, {"exposure": 0.0, "gamma": 2.2, "contrast": 1.0})
        self.matrix = torch.eye(3, device=device) + 0.05

    def open_shot(self, **values):
        self.settings = self.settings.new_child(values)

    def close_shot(self):
        self.settings = self.settings.parents

    def __call__(self, image):
        s = self.settings
        x = image @ self.matrix * 2.0 ** s["exposure"]
        x = (x - 0.18) * s["contrast"] + 0.18
        return x.clamp(min=1e-4) ** (1 / s["gamma"])


def build(device):
    mapper = ToneMapper(device)

    def refresh(args, kwargs, k):
        if k % 60 == 45:
            mapper.open_shot(exposure=-0.5)
        elif k % 60 == 50:
            mapper.close_shot()
        args[0].copy_(torch.rand(16, 3))

    return graphsafe.Step(mapper, (torch.rand(16, 3, device=device),), refresh=refresh)
