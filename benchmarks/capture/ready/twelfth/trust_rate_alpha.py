"""Layer-wise rates: each update is scaled by the ratio of norms, given to add_ as alpha."""

import torch

import graphsafe


def build(device):
    weights = [torch.randn(8, 8, device=device) for _ in range(3)]

    def step(x, y):
        leaves = [w.requires_grad_() for w in weights]
        out = x
        for w in leaves:
            out = torch.tanh(out @ w / 3)
        grads = torch.autograd.grad((out - y).square().mean(), leaves)
        with torch.no_grad():
            for w, g in zip(weights, grads, strict=False):
                trust = w.norm() / (g.norm() + 1e-4)
                w.add_(g, alpha=-0.001 * trust)
        return out.detach()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(4, 8))
        args[1].copy_(torch.randn(4, 8))

    return graphsafe.Step(step, (torch.randn(4, 8, device=device), torch.randn(4, 8, device=device)), refresh=refresh)
