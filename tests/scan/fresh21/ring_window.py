import torch
from torch import nn


class RingWindow(nn.Module):
    def __init__(self, dim=8, window=6):
        super().__init__()
        self.proj = nn.Linear(dim, dim)
        self.window = window
        self.register_buffer("ring", torch.zeros(window, dim))
        self.register_buffer("cursor", torch.zeros(1, dtype=torch.long))

    def forward(self, frame):
        self.ring.index_copy_(0, self.cursor, self.proj(frame))
        self.cursor.add_(1).remainder_(self.window)
        return self.ring.mean(0)


def build(device):
    torch.manual_seed(3)
    net = RingWindow().to(device).eval().requires_grad_(False)
    return net, (torch.randn(1, 8, device=device),)
