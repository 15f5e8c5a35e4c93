"""A forward pass that takes its batch description as an object, as engines do."""
import torch
from torch import nn


class ForwardBatch:
    """What the scheduler makes for each step. Not a dataclass: it has methods and slots."""

    __slots__ = ("seq_lens_cpu", "slots", "mode")

    def __init__(self, seq_lens_cpu, slots):
        self.seq_lens_cpu = seq_lens_cpu
        self.slots = slots
        self.mode = "decode"

    def longest(self):
        return self.seq_lens_cpu.max().item()


class Layer(nn.Module):
    def __init__(self, dim=16, window=64):
        super().__init__()
        self.proj = nn.Linear(dim, dim)
        self.register_buffer("cache", torch.zeros(window, dim))

    def forward(self, x, batch):
        y = self.proj(x)
        self.cache.index_copy_(0, batch.slots, y)
        recent = self.cache[: batch.longest()]  # LINE: a host length becomes a size
        return y + recent.mean(0)


def vary(args, kwargs, k):
    args[0].copy_(torch.randn(4, 16))
    args[1].seq_lens_cpu.copy_(torch.tensor([9, 4, 6, 2]) + k)
    args[1].slots.copy_((torch.arange(4) + 4 * k) % 64)


def build(device):
    torch.manual_seed(3)
    layer = Layer().to(device).eval().requires_grad_(False)
    batch = ForwardBatch(torch.tensor([9, 4, 6, 2]), torch.arange(4, device=device))
    return layer, (torch.randn(4, 16, device=device), batch)
