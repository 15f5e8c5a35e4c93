import torch
from torch import nn

from routing import Router


class ExpertBank(nn.Module):
    def __init__(self, dim=12, hidden=20, experts=4):
        super().__init__()
        self.router = Router(dim, experts)
        self.w1 = nn.Parameter(torch.randn(experts, dim, hidden) * 0.2)
        self.w2 = nn.Parameter(torch.randn(experts, hidden, dim) * 0.2)

    def forward(self, x):
        choice, weight, load = self.router(x)
        h = torch.einsum("td,edh->teh", x, self.w1).relu()
        y = torch.einsum("teh,ehd->ted", h, self.w2)
        picked = y.gather(1, choice[:, None, None].expand(-1, 1, y.shape[-1])).squeeze(1)
        return x + weight[:, None] * picked, load
