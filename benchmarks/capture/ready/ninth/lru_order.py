"""LoRA adapters of live tenants in an LRU table; requests carry the slot of their tenant's adapter."""
from collections import OrderedDict

import torch
from torch import nn

import graphsafe

TENANTS = ("acme", "globex", "initech", "umbrella")


class Adapters(nn.Module):
    def __init__(self, width, rank, device):
        super().__init__()
        self.base = nn.Linear(width, width).to(device)
        self.live = OrderedDict((t, torch.randn(width, width).to(device) / width) for t in TENANTS)

    def touch(self, tenant):
        self.live.move_to_end(tenant)  # <-B

    def slot(self, tenant):
        return list(self.live).index(tenant)

    def forward(self, x, slot):
        bank = torch.stack(list(self.live.values()))  # <-A
        return self.base(x) + torch.einsum("bi,bij->bj", x, bank[slot])


def build(device, batch=4, width=16, rank=4):
    model = Adapters(width, rank, device).eval().requires_grad_(False)
    x = torch.randn(batch, width).to(device)
    slot = torch.zeros(batch, dtype=torch.int64, device=device)

    def refresh(args, kwargs, k):
        if k % 10 == 9:
            model.touch(TENANTS[k // 10 % 4])
        args[0].copy_(torch.randn(batch, width))
        args[1].copy_(torch.tensor([model.slot(TENANTS[(k + i) % 4]) for i in range(batch)]))

    return graphsafe.Step(model, (x, slot), refresh=refresh)
