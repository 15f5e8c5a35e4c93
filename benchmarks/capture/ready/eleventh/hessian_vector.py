"""A Hessian-vector product by forward over reverse, through torch.func."""
import torch

import graphsafe


def build(device):
    w = torch.randn(8, 8).to(device) / 3

    def energy(x):
        return torch.tanh(x @ w).square().sum()

    def step(x, v):
        return torch.func.jvp(torch.func.grad(energy), (x,), (v,))

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(4, 8))
        args[1].copy_(torch.randn(4, 8))

    return graphsafe.Step(step, (torch.randn(4, 8, device=device), torch.randn(4, 8, device=device)), refresh=refresh)
