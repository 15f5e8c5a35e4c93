"""AdaLoRA gives ranks to layers by a budget: faulty, new rank masks are assigned in a WeakKeyDictionary."""
from weakref import WeakKeyDictionary

import torch

import graphsafe


class Adapted(torch.nn.Module):
    def __init__(self, dim, rank):
        super().__init__()
        self.base = torch.nn.Linear(dim, dim).requires_grad_(False)
        self.left = torch.nn.Parameter(torch.randn(dim, rank) * 0.5)
        self.values = torch.nn.Parameter(torch.randn(rank))
        self.right = torch.nn.Parameter(torch.randn(rank, dim) * 0.5)

    def forward(self, x, mask):
        return self.base(x) + x @ self.left * (self.values * mask) @ self.right


def build(device, dim=8, rank=4):
    layers = torch.nn.ModuleList([Adapted(dim, rank), Adapted(dim, rank)]).to(device)
    masks = WeakKeyDictionary((layer, torch.ones(rank, device=device)) for layer in layers)
    weights = [p for p in layers.parameters() if p.requires_grad]

    def allocate(budget):
        scores = torch.cat([layer.values.detach().abs() for layer in layers])
        least = scores.sort(descending=True).values[budget - 1]
        for layer in layers:
            mask = (layer.values.detach().abs() >= least).float()
            masks[layer] = mask

    def step(x, y):
        hidden = x
        for layer in layers:
            hidden = torch.tanh(layer(hidden, masks[layer]))
        loss = (hidden - y).square().mean()
        gradients = torch.autograd.grad(loss, weights)
        with torch.no_grad():
            for weight, gradient in zip(weights, gradients, strict=True):
                weight.sub_(gradient, alpha=0.1)
        return loss.detach(), hidden.detach()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(12, dim))
        args[1].copy_(args[0].flip(-1).sin())
        if k in (30, 60):
            allocate(budget=6 - k // 20)

    args = (torch.randn(12, dim, device=device), torch.zeros(12, dim, device=device))
    return graphsafe.Step(step, args, refresh=refresh)
