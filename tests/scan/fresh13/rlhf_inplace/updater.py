"""Takes weights from the learner and copies them into the tensors that the actor already has."""

import torch


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
            getattr(owner, leaf).copy_(value)
        self.version += 1
