"""A forward pass with a batch object whose lengths are on the device, refreshed by the scheduler."""
import torch
from torch import nn

import graphsafe


class ForwardBatch:
    __slots__ = ("seq_lens", "slots", "mode", "request_ids")

    def __init__(self, seq_lens, slots):
        self.seq_lens = seq_lens
        self.slots = slots
        self.mode = "decode"
        self.request_ids = ["a", "b", "c", "d"]


class Layer(nn.Module):
    def __init__(self, dim=16, window=64):
        super().__init__()
        self.proj = nn.Linear(dim, dim)
        self.register_buffer("cache", torch.zeros(window, dim))
        self.register_buffer("index", torch.arange(window))

    def forward(self, x, batch):
        y = self.proj(x)
        self.cache.index_copy_(0, batch.slots, y)
        longest = batch.seq_lens.amax()
        weight = (self.index < longest).to(y.dtype)
        return y + (weight @ self.cache) / longest


def build(device):
    torch.manual_seed(3)
    layer = Layer().to(device).eval().requires_grad_(False)
    batch = ForwardBatch(torch.tensor([9, 4, 6, 2], device=device), torch.arange(4, device=device))

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(4, 16))
        args[1].seq_lens.copy_((torch.tensor([9, 4, 6, 2]) + k) % 60 + 1)
        args[1].slots.copy_((torch.arange(4) + 4 * k) % 64)
        args[1].request_ids = [f"r{k}.{i}" for i in range(4)]

    return graphsafe.Step(layer, (torch.randn(4, 16, device=device), batch), refresh=refresh)
