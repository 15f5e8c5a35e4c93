"""Top-k mixture of experts with a fixed number of places for each expert, as a decode step runs it."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Dispatch(nn.Module):
    def __init__(self, experts: int, top_k: int, places: int):
        super().__init__()
        self.experts, self.top_k, self.places = experts, top_k, places
        self.register_buffer("usage", torch.zeros(experts))
        self.register_buffer("seen", torch.zeros((), dtype=torch.long))

    def forward(self, logits: torch.Tensor):
        weight, expert = logits.softmax(-1).topk(self.top_k, dim=-1)
        weight = weight / weight.sum(-1, keepdim=True)
        chosen = F.one_hot(expert.flatten(), self.experts)
        rank = ((chosen.cumsum(0) - 1) * chosen).sum(-1)
        fits = rank < self.places
        row = torch.where(fits, expert.flatten() * self.places + rank, self.experts * self.places)
        self.usage.lerp_(chosen.sum(0).to(self.usage.dtype), 0.1)
        self.seen.add_(logits.shape[0])
        return row, weight.flatten() * fits


class ExpertBank(nn.Module):
    def __init__(self, experts: int, dim: int, hidden: int):
        super().__init__()
        self.gate_up = nn.Parameter(torch.randn(experts, dim, 2 * hidden) * dim**-0.5)
        self.down = nn.Parameter(torch.randn(experts, hidden, dim) * hidden**-0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate, up = torch.bmm(x, self.gate_up).chunk(2, dim=-1)
        return torch.bmm(F.silu(gate) * up, self.down)


class MoE(nn.Module):
    def __init__(self, dim=16, hidden=24, experts=6, top_k=2, places=4):
        super().__init__()
        self.router = nn.Linear(dim, experts, bias=False)
        self.dispatch = Dispatch(experts, top_k, places)
        self.bank = ExpertBank(experts, dim, hidden)
        self.shared = nn.Sequential(nn.Linear(dim, hidden), nn.SiLU(), nn.Linear(hidden, dim))
        self.side = None
        self.token_of = None

    def rows(self, x: torch.Tensor) -> torch.Tensor:
        if self.token_of is None:
            self.token_of = torch.arange(x.shape[0], device=x.device).repeat_interleave(self.dispatch.top_k)
        return self.token_of

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        current = torch.cuda.current_stream(x.device)
        self.side.wait_stream(current)
        with torch.cuda.stream(self.side):
            common = self.shared(x)
        row, weight = self.dispatch(self.router(x))
        d = self.dispatch
        slots = x.new_zeros(d.experts * d.places + 1, x.shape[1])
        token = self.rows(x)
        slots.index_copy_(0, row, x[token])
        done = self.bank(slots[:-1].view(d.experts, d.places, -1)).flatten(0, 1)
        done = F.pad(done, (0, 0, 0, 1))
        routed = torch.zeros_like(x).index_add_(0, token, done[row] * weight[:, None])
        current.wait_stream(self.side)
        return x + routed + common


class Layers(nn.Module):
    def __init__(self, depth=2):
        super().__init__()
        self.blocks = nn.ModuleList(MoE() for _ in range(depth))
        self.norms = nn.ModuleList(nn.LayerNorm(16) for _ in range(depth))
        self.steps_run = 0

    def forward(self, x):
        self.steps_run += 1
        for block, norm in zip(self.blocks, self.norms):
            x = block(norm(x))
        return x


def build(device):
    torch.manual_seed(21)
    model = Layers().to(device).eval().requires_grad_(False)
    for block in model.blocks:
        block.side = torch.cuda.Stream(device)
    return model, (torch.randn(8, 16, device=device),)
