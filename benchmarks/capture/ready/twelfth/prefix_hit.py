"""Prefix caching: a request whose prompt was seen before gets the stored states of that prompt, others are
encoded anew."""

import torch

import graphsafe


class Engine:
    def __init__(self, device, width=16):
        self.embed = torch.randn(64, width, device=device)
        self.mix = torch.randn(width, width, device=device) / 4
        self.scratch = torch.zeros(6, width, device=device)
        self.prefix = self.scratch
        self.store = {}

    def admit(self, prompt):
        key = tuple(prompt)
        if key in self.store:
            self.prefix = self.store[key]
            return
        ids = torch.tensor(prompt, device=self.embed.device)
        self.scratch.copy_(torch.tanh(self.embed[ids] @ self.mix))
        self.store[key] = self.scratch.clone()
        self.prefix = self.scratch

    def decode(self, x):
        share = (x @ self.prefix.T / 4).softmax(-1)
        return share @ self.prefix


def build(device):
    engine = Engine(device)
    engine.admit([1, 2, 3, 4, 5, 6])
    draw = torch.Generator().manual_seed(11)
    asked = [torch.randint(64, (6,), generator=draw).tolist() for _ in range(12)]

    def refresh(args, kwargs, k):
        if k % 11 == 10:
            engine.admit(asked[k // 11 % 8 if k > 90 else k // 11])
        args[0].copy_(torch.randn(3, 16))

    return graphsafe.Step(engine.decode, (torch.randn(3, 16, device=device),), refresh=refresh)
