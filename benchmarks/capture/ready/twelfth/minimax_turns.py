"""A saddle-point solver takes turns: the multipliers descend in a short recovery phase instead of ascending."""

import torch

import graphsafe


def build(device):
    x = torch.nn.Parameter(torch.zeros(8, device=device))
    multipliers = torch.nn.Parameter(torch.zeros(3, device=device))
    constraints = torch.randn(3, 8, device=device)
    primal = torch.optim.SGD([x], lr=0.05)
    dual = torch.optim.SGD([multipliers], lr=0.02, maximize=True)

    def step(cost):
        x.grad = multipliers.grad = None
        lagrangian = ((x - cost) ** 2).sum() + multipliers @ (constraints @ x - 1)
        lagrangian.backward()
        primal.step()
        dual.step()
        return x.detach().clone(), lagrangian.detach()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(8))
        dual.param_groups[0]["maximize"] = not 120 <= k < 126

    return graphsafe.Step(step, (torch.randn(8, device=device),), refresh=refresh)
