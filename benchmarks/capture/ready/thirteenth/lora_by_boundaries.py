"""Many LoRA adapters in one batch: segment boundaries are device integers; each row finds its adapter by a search."""
import torch
import torch.nn as nn

import graphsafe

ROWS, WIDTH, RANK, ADAPTERS = 16, 32, 4, 5


class MultiLora(nn.Module):
    def __init__(self):
        super().__init__()
        self.base = nn.Linear(WIDTH, WIDTH)
        self.a = nn.Parameter(torch.randn(ADAPTERS, WIDTH, RANK) / 6)
        self.b = nn.Parameter(torch.randn(ADAPTERS, RANK, WIDTH) / 2)
        self.register_buffer("scale", torch.ones(ADAPTERS))

    def forward(self, x, boundaries):
        rows = torch.arange(ROWS, device=x.device)
        owner = torch.searchsorted(boundaries, rows, right=True).clamp(max=ADAPTERS - 1)
        low = torch.bmm(x[:, None], self.a[owner])
        high = torch.bmm(low, self.b[owner]).squeeze(1)
        return self.base(x) + high * self.scale[owner, None], owner


class Scheduler:
    def __init__(self, layer):
        self.layer, self.names = layer, ["base", "sql", "poet", "legal", "chat"]
        self.log = []

    def compose(self, args, kwargs, k):
        owners = torch.randint(ADAPTERS, (ROWS,)).sort().values
        self.log.append([self.names[i] for i in owners.unique().tolist()])
        args[0].copy_(torch.randn(ROWS, WIDTH))
        args[1].copy_(torch.searchsorted(owners, torch.arange(ADAPTERS), right=True))

    def swap_in(self):
        torch.manual_seed(4)
        self.layer.a[2].copy_(torch.randn(WIDTH, RANK) / 6)
        self.layer.b[2].copy_(torch.randn(RANK, WIDTH) / 2)
        self.layer.scale[2] = 0.5
        self.names[2] = "prose"


def build(device):
    layer = MultiLora().to(device).requires_grad_(False)
    scheduler = Scheduler(layer)
    x = torch.randn(ROWS, WIDTH, device=device)
    boundaries = torch.tensor([3, 6, 10, 12, 16], device=device)
    return graphsafe.Step(layer, (x, boundaries), {}, refresh=scheduler.compose, events={"swap in": scheduler.swap_in})
