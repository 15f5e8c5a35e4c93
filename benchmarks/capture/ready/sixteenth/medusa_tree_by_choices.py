"""Medusa drafts with a tree of choices: the step asks an lru_cache for the mask of the current tree, a host tuple."""
import functools

import torch

import graphsafe

WIDE = ((0,), (1,), (2,), (0, 0), (0, 1), (1, 0))
DEEP = ((0,), (1,), (0, 0), (0, 0, 0), (0, 0, 0, 0), (1, 0))


@functools.lru_cache(maxsize=16)
def ancestors(choices, device):
    mask = torch.eye(len(choices) + 1)
    mask[:, 0] = 1
    for i, path in enumerate(choices):
        for depth in range(1, len(path)):
            mask[i + 1, choices.index(path[:depth]) + 1] = 1
    return mask.bool().to(device)


class Verifier:
    def __init__(self, device, dim=8):
        self.device = device
        self.wqkv = torch.randn(dim, 3 * dim, device=device) / dim**0.5
        self.choices = WIDE
        self.hits = [0, 0]

    def verify(self, drafts):
        q, k, v = (drafts @ self.wqkv).chunk(3, -1)
        mask = ancestors(self.choices, self.device)
        scores = (q @ k.transpose(-1, -2)).masked_fill(~mask, float("-inf"))
        return drafts + torch.softmax(scores, -1) @ v

    def learn(self, k):
        """Deep trees are better while the text repeats itself."""
        self.hits[k // 24 % 2] += 1
        self.choices = (WIDE, DEEP)[k // 24 % 2]


def build(device):
    verifier = Verifier(device)

    def refresh(args, kwargs, k):
        verifier.learn(k)
        args[0].copy_(torch.randn(2, 7, 8))

    return graphsafe.Step(verifier.verify, (torch.randn(2, 7, 8, device=device),), refresh=refresh)
