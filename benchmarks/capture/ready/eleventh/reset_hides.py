"""A decoder's host position starts at zero with every request; from position 120 on it slides its window."""
import torch

import graphsafe


class Decoder:
    def __init__(self, device):
        self.w = torch.randn(16, 16).to(device) / 4
        self.cache = torch.zeros(16, device=device)
        self.pos = 0

    def step(self, x):
        self.pos += 1
        self.cache.mul_(0.9).add_(x.mean(0))
        if self.pos > 120:
            self.cache.sub_(self.cache.mean())
        return x @ self.w + self.cache

    def restart(self):
        self.pos = 0
        self.cache.zero_()


def build(device):
    decoder = Decoder(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(4, 16))

    return graphsafe.Step(decoder.step, (torch.randn(4, 16, device=device),), refresh=refresh, reset=decoder.restart)
