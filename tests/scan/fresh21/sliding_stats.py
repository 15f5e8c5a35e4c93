import torch
from torch import nn


class SlidingStats(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.proj = nn.Linear(dim, dim)
        self.register_buffer("mean", torch.zeros(dim))
        self.offset = None

    def forward(self, x):
        h = self.proj(x)
        if self.offset is None:
            self.offset = h.mean(0)
        self.mean = 0.9 * self.mean + 0.1 * h.mean(0)
        bias = torch.tensor([0.5] * x.shape[1], device=x.device)
        return h - self.offset + bias - self.mean


def build(device):
    torch.manual_seed(4)
    net = SlidingStats().to(device).requires_grad_(False)
    return net, (torch.randn(10, 8, device=device),)
