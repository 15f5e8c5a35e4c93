"""Decode with a static position buffer that the runner writes before each step."""
import torch

import graphsafe


class Decoder:
    def __init__(self, device, dim=16, length=256):
        torch.manual_seed(5)
        self.w = torch.randn(dim, dim, device=device) / 4
        self.kv = torch.zeros(length, dim, device=device)
        self.position = torch.zeros(1, dtype=torch.int64, device=device)
        self.slots = torch.arange(length, device=device)
        self.num_computed_tokens = 0

    def prepare(self):
        self.position.fill_(self.num_computed_tokens)

    def step(self, x):
        h = torch.tanh(x @ self.w)
        self.kv.index_copy_(0, self.position, h)
        seen = (self.slots <= self.position).unsqueeze(-1)
        out = (self.kv * seen).sum(0, keepdim=True) + h
        self.num_computed_tokens += 1  # LINE: not advanced by a replay, and prepare() reads it
        return out


def build(device):
    decoder = Decoder(device)
    x = torch.randn(1, 16, device=device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(1, 16))
        decoder.prepare()

    return graphsafe.Step(decoder.step, (x,), refresh=refresh)
