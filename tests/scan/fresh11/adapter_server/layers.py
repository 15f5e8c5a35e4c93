import torch
import torch.nn as nn


class AdaptedLinear(nn.Module):
    def __init__(self, dim_in: int, dim_out: int, rank: int):
        super().__init__()
        self.base = nn.Linear(dim_in, dim_out)
        self.down = nn.Parameter(torch.zeros(rank, dim_in), requires_grad=False)
        self.up = nn.Parameter(torch.zeros(dim_out, rank), requires_grad=False)

    def forward(self, x):
        return self.base(x) + (x @ self.down.t()) @ self.up.t()


class Classifier(nn.Module):
    def __init__(self, dim: int, classes: int, rank: int):
        super().__init__()
        self.first = AdaptedLinear(dim, dim, rank)
        self.second = AdaptedLinear(dim, classes, rank)

    def forward(self, x, valid):
        h = torch.relu(self.first(x))
        weight = valid.unsqueeze(-1)
        centre = (h * weight).sum(0, keepdim=True) / weight.sum().clamp(min=1.0)
        return self.second(h - centre)
