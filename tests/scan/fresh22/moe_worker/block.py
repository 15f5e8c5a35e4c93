import torch
from torch import nn


class MoE(nn.Module):
    def __init__(self, dim=16, experts=4):
        super().__init__()
        self.gate = nn.Linear(dim, experts)
        self.w = nn.Parameter(torch.randn(experts, dim, dim) * 0.1)
        self.top_k = 2

    def forward(self, x, bias):
        scores = torch.softmax(self.gate(x) + bias, -1)
        p, idx = scores.topk(self.top_k, -1)
        dense = torch.zeros_like(scores).scatter(1, idx, p)
        y = torch.einsum("td,edf,te->tf", x, self.w, dense)
        return y, dense.sum(0)
