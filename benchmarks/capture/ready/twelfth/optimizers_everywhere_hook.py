"""A stability monitor registers a pre-hook for all optimizers once it has seen enough steps: gradients lose
their mean."""

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

import graphsafe


def centre(optimizer, args, kwargs):
    for group in optimizer.param_groups:
        for p in group["params"]:
            if p.grad is not None and p.ndim > 1:
                p.grad.sub_(p.grad.mean(1, keepdim=True))


def build(device):
    model = torch.nn.Linear(10, 4).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    def step(x, y):
        optimizer.zero_grad(set_to_none=False)
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(8, 10) + 0.5)
        args[1].copy_(torch.randn(8, 4))
        if k == 70:
            register_optimizer_step_pre_hook(centre)

    args = (torch.randn(8, 10, device=device), torch.randn(8, 4, device=device))
    return graphsafe.Step(step, args, refresh=refresh)
