"""A byte model that pools hidden states of dynamic patches: sound, patches are numbered from device flags."""
from itertools import pairwise

import torch

import graphsafe

LENGTH, PATCHES = 16, 4


class Patcher:
    def __init__(self, device):
        self.bounds = []
        self.starts = torch.zeros(LENGTH, dtype=torch.long, device=device)
        self.segment(torch.arange(LENGTH) % 4 == 0)

    def segment(self, surprise):
        inner = surprise[1:].float().topk(PATCHES - 1).indices + 1
        self.bounds = [0, *sorted(inner.tolist()), LENGTH]
        flags = torch.zeros(LENGTH, dtype=torch.long)
        flags[self.bounds[:-1]] = 1
        self.starts.copy_(flags)

    def pool(self, hidden):
        numbers = self.starts.cumsum(0) - 1
        member = (numbers == torch.arange(PATCHES, device=hidden.device).unsqueeze(1)).to(hidden.dtype)
        return member @ hidden / member.sum(1, keepdim=True)

    def longest(self):
        return max(end - start for start, end in pairwise(self.bounds))


def build(device, dim=6):
    patcher = Patcher(device)
    mix = torch.nn.Linear(dim, dim).to(device)

    @torch.no_grad()
    def step(hidden):
        patches = patcher.pool(torch.tanh(mix(hidden)))
        return torch.softmax(patches @ patches.T, -1) @ patches

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(LENGTH, dim))
        if k % 14 == 0:
            patcher.segment(torch.randperm(LENGTH))

    return graphsafe.Step(step, (torch.randn(LENGTH, dim, device=device),), refresh=refresh)
