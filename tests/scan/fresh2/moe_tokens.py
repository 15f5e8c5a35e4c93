import torch
import torch.nn.functional as F
from torch import nn


class Expert(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)

    def forward(self, x):
        return self.down(F.silu(self.up(x)))


class Router(nn.Module):
    def __init__(self, width, experts, top_k):
        super().__init__()
        self.gate = nn.Linear(width, experts, bias=False)
        self.top_k = top_k

    def forward(self, x):
        scores = self.gate(x).softmax(-1)
        weight, choice = scores.topk(self.top_k, dim=-1)
        return weight / weight.sum(-1, keepdim=True), choice


class SortedDispatch:
    """Groups the token copies of each expert together."""

    def __init__(self, experts):
        self.experts = experts

    def __call__(self, flat_choice):
        order = flat_choice.argsort(stable=True)
        counts = torch.zeros(self.experts, dtype=torch.long, device=flat_choice.device)
        counts.scatter_add_(0, flat_choice, torch.ones_like(flat_choice))
        return order, counts


class MoELayer(nn.Module):
    def __init__(self, width=32, hidden=64, experts=4, top_k=2):
        super().__init__()
        self.router = Router(width, experts, top_k)
        self.dispatch = SortedDispatch(experts)
        self.experts = nn.ModuleList(Expert(width, hidden) for _ in range(experts))
        self.top_k = top_k

    def forward(self, x):
        weight, choice = self.router(x)
        order, counts = self.dispatch(choice.reshape(-1))
        source = order // self.top_k
        gathered = x[source]
        sizes = counts.tolist()
        outs = [expert(part) for expert, part in zip(self.experts, gathered.split(sizes))]
        merged = torch.cat(outs) * weight.reshape(-1)[order].unsqueeze(-1)
        return torch.zeros_like(x).index_add_(0, source, merged)


class Block(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.moe = MoELayer(width)
        self.shared = Expert(width, 2 * width)
        self.scale = 1.0

    def forward(self, x, padding):
        live = torch.where(padding == 0)[0]
        y = self.norm(x)
        routed = torch.zeros_like(x)
        routed[live] = self.moe(y[live])
        return x + self.shared(y) + self.scale * routed


def build(device):
    torch.manual_seed(0)
    block = Block().to(device).eval()
    x = torch.randn(24, 32, device=device)
    padding = torch.zeros(24, dtype=torch.long, device=device)
    padding[20:] = 1
    for p in block.parameters():
        p.requires_grad_(False)
    return block, (x, padding)
