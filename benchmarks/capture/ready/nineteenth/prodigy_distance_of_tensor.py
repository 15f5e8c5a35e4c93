"""Prodigy estimates its own rate: sound, the distance d in the parameter group is a tensor, estimated in place."""
import torch

import graphsafe


def build(device, dim=8):
    weight = torch.randn(dim, dim, device=device, requires_grad=True)
    start = weight.detach().clone()
    group = {"params": [weight], "d": torch.full((), 0.05, device=device), "beta": 0.9}
    numerator, weighted = torch.zeros((), device=device), torch.zeros_like(start)

    def step(x, y):
        loss = (torch.tanh(x @ weight) - y).square().mean()
        (gradient,) = torch.autograd.grad(loss, weight)
        d, beta = group["d"], group["beta"]
        with torch.no_grad():
            numerator.mul_(beta).add_((gradient * (start - weight)).sum() * d)
            weighted.mul_(beta).add_(gradient * d)
            weight.sub_(gradient * d)
        return loss.detach(), weight.detach().norm()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(12, dim))
        args[1].copy_(args[0].roll(1, -1).sin())
        if k % 5 == 4:
            estimate = 4 * float(numerator / weighted.abs().sum().clamp(min=1e-8))
            group["d"].fill_(min(0.5, max(float(group["d"]) * 1.25, estimate)))

    args = (torch.randn(12, dim, device=device), torch.zeros(12, dim, device=device))
    return graphsafe.Step(step, args, refresh=refresh)
