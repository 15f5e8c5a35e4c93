"""Takes weights from the learner and puts them into the actor."""

import torch
import torch.nn as nn


class WeightUpdater:
    def __init__(self, module):
        self.module = module
        self.version = 0

    def find(self, name):
        *path, leaf = name.split(".")
        owner = self.module
        for part in path:
            owner = getattr(owner, part)
        return owner, leaf

    @torch.no_grad()
    def apply(self, weights):
        for name, value in weights.items():
            owner, leaf = self.find(name)
            setattr(owner, leaf, nn.Parameter(value.clone(), requires_grad=False))
        self.version += 1
