import torch
from torch import nn


class SwitchGate(nn.Module):
    def __init__(self, dim: int, experts: int):
        super().__init__()
        self.proj = nn.Linear(dim, experts, bias=False)
        self.experts = experts

    def forward(self, x: torch.Tensor):
        weight, chosen = self.proj(x).softmax(-1).max(-1)
        order = chosen.argsort(stable=True)
        counts = torch.bincount(chosen, minlength=self.experts)
        return weight, order, counts.tolist()
