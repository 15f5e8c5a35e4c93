"""A memo by id(): packed forms of filters that live as long as the bank and are never written."""

import torch

import graphsafe


class Bank:
    def __init__(self, device):
        self.filters = [torch.randn(1, 1, n, device=device) for n in (3, 5, 7)]
        self.packed = {}
        self.hits = 0

    def pack(self, taps):
        if id(taps) in self.packed:
            self.hits += 1
            return self.packed[id(taps)]
        self.packed[id(taps)] = made = (taps.flip(-1) / taps.norm()).contiguous()
        return made

    def run(self, x):
        return torch.cat(
            [torch.nn.functional.conv1d(x, self.pack(t), padding=t.shape[-1] // 2) for t in self.filters], 1
        )


def build(device):
    bank = Bank(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(2, 1, 50))
        bank.hits = 0

    return graphsafe.Step(bank.run, (torch.randn(2, 1, 50, device=device),), refresh=refresh)
