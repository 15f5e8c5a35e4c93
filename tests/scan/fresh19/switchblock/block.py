import torch
from torch import nn

from .gate import SwitchGate


class SwitchBlock(nn.Module):
    def __init__(self, dim: int, hidden: int, experts: int):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.gate = SwitchGate(dim, experts)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(dim, hidden), nn.GELU(), nn.Linear(hidden, dim)) for _ in range(experts)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.norm(x)
        weight, order, counts = self.gate(h)
        parts = []
        for expert, group in zip(self.experts, h[order].split(counts)):
            if group.shape[0]:
                parts.append(expert(group))
        y = torch.empty_like(h)
        y[order] = torch.cat(parts)
        strong = (weight > 0.5).nonzero().squeeze(1)
        y.index_add_(0, strong, h.index_select(0, strong), alpha=0.1)
        return x + y * weight[:, None]


def build(device):
    torch.manual_seed(1)
    block = SwitchBlock(12, 24, 4).to(device).requires_grad_(False)
    return block, (torch.randn(16, 12, device=device),)
