"""MoE layer with an expert load balancer: hot experts are placed on other slots, weights are exchanged in place."""
import torch
import torch.nn as nn

import graphsafe

EXPERTS, WIDTH = 6, 24


class BalancedMoE(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(WIDTH, EXPERTS)
        self.up = nn.Parameter(torch.randn(EXPERTS, WIDTH, 48) / 5)
        self.down = nn.Parameter(torch.randn(EXPERTS, 48, WIDTH) / 7)
        self.slot_of = list(range(EXPERTS))  # logical expert -> physical slot
        self.register_buffer("load", torch.zeros(EXPERTS))

    def forward(self, x):
        weights, chosen = self.gate(x).softmax(-1).topk(2, -1)
        share = torch.zeros(len(x), EXPERTS, device=x.device).scatter(1, chosen, weights)
        self.load.lerp_(share.sum(0), 0.1)
        out = torch.zeros_like(x)
        for logical in range(EXPERTS):
            slot = self.slot_of[logical]
            out = out + share[:, logical, None] * (torch.relu(x @ self.up[slot]) @ self.down[slot])
        return out

    @torch.no_grad()
    def rebalance(self):
        order = self.load.argsort(descending=True, stable=True).tolist()
        placed = [0] * EXPERTS
        for rank, logical in enumerate(order):
            placed[logical] = rank
        move = [0] * EXPERTS
        for logical in range(EXPERTS):
            move[placed[logical]] = self.slot_of[logical]
        self.up.copy_(self.up[move].clone())
        self.down.copy_(self.down[move].clone())
        self.slot_of = placed


def build(device):
    moe = BalancedMoE().to(device).requires_grad_(False)
    x = torch.randn(16, WIDTH, device=device)
    return graphsafe.Step(moe, (x,), {}, refresh=lambda args, kwargs, k: args[0].copy_(torch.randn(16, WIDTH)), events={"rebalance": moe.rebalance})
