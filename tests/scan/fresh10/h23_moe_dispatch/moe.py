import torch
import torch.nn as nn


class Expert(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.w1 = nn.Linear(dim, hidden, bias=False)
        self.w2 = nn.Linear(hidden, dim, bias=False)
        self.w3 = nn.Linear(dim, hidden, bias=False)

    def forward(self, x):
        return self.w2(nn.functional.silu(self.w1(x)) * self.w3(x))


class Router(nn.Module):
    def __init__(self, dim, experts, top_k):
        super().__init__()
        self.gate = nn.Linear(dim, experts, bias=False)
        self.top_k = top_k

    def forward(self, x):
        weights, chosen = self.gate(x).softmax(-1).topk(self.top_k, dim=-1)
        return weights / weights.sum(-1, keepdim=True), chosen


class MoELayer(nn.Module):
    """Sorts tokens by expert, runs each expert on its share, puts them back."""

    def __init__(self, dim=32, hidden=48, experts=4, top_k=2):
        super().__init__()
        self.router = Router(dim, experts, top_k)
        self.experts = nn.ModuleList(Expert(dim, hidden) for _ in range(experts))

    def forward(self, x):
        weights, chosen = self.router(x)
        flat = chosen.flatten()
        order = flat.argsort()
        load = torch.bincount(flat, minlength=len(self.experts))
        source = order // chosen.shape[1]
        shares = x[source].split(load.tolist())
        done = torch.cat([expert(share) for expert, share in zip(self.experts, shares)])
        done = done * weights.flatten()[order].unsqueeze(1)
        out = x.index_add(0, source, done)
        return out, load


def build(device):
    torch.manual_seed(23)
    layer = MoELayer().to(device).eval().requires_grad_(False)
    return layer, (torch.randn(24, 32, device=device),)
