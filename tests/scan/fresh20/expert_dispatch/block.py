import torch
from torch import nn

from gate import TopKGate


class Expert(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.w = nn.Linear(dim, 2 * hidden)
        self.o = nn.Linear(hidden, dim)

    def forward(self, x):
        a, b = self.w(x).chunk(2, -1)
        return self.o(nn.functional.silu(a) * b)


class SparseBlock(nn.Module):
    """Routed experts in sorted order, and a shared expert for tokens with a weak route."""

    def __init__(self, dim=16, hidden=24, experts=4):
        super().__init__()
        self.gate = TopKGate(dim, experts)
        self.experts = nn.ModuleList(Expert(dim, hidden) for _ in range(experts))
        self.shared = Expert(dim, hidden)

    def routed(self, x, weight, expert):
        flat = expert.flatten()
        order = flat.argsort(stable=True)
        rows = order // self.gate.k
        chunks = x.index_select(0, rows).split(self.gate.sizes(expert))
        out = torch.cat([net(c) for net, c in zip(self.experts, chunks)])
        scale = weight.flatten().index_select(0, order)
        return torch.zeros_like(x).index_add_(0, rows, out * scale[:, None])

    def forward(self, x):
        weight, expert = self.gate(x)
        y = self.routed(x, weight, expert)
        weak = torch.nonzero(weight[:, 0] < 0.6).squeeze(-1)
        return y.index_add(0, weak, self.shared(x.index_select(0, weak)))


def build(device):
    torch.manual_seed(0)
    block = SparseBlock().to(device).eval().requires_grad_(False)
    return block, (torch.randn(12, 16, device=device),)
