import torch
from torch import nn


class SwiGLUBank(nn.Module):
    def __init__(self, experts, dim, hidden):
        super().__init__()
        self.up = nn.Parameter(torch.randn(experts, dim, 2 * hidden) * dim**-0.5)
        self.down = nn.Parameter(torch.randn(experts, hidden, dim) * hidden**-0.5)

    def forward(self, x):
        a, b = torch.bmm(x, self.up).chunk(2, -1)
        return torch.bmm(nn.functional.silu(a) * b, self.down)


class Placement(nn.Module):
    """Gives every (token, choice) a place in its expert's fixed-capacity bin."""

    def __init__(self, experts, capacity):
        super().__init__()
        self.experts, self.capacity = experts, capacity
        self.register_buffer("ids", torch.arange(experts))

    def forward(self, expert):
        flat = expert.flatten()
        hit = (flat[:, None] == self.ids).long()
        place = (hit.cumsum(0) * hit).sum(-1) - 1
        fits = place < self.capacity
        slot = torch.where(fits, flat * self.capacity + place, self.experts * self.capacity)
        return slot, fits
