"""Two tasks on one trunk, gradients weighted in tensor hooks: faulty, the weights are floats in a dict."""
import torch

import graphsafe

TASKS = ("depth", "normals")


def build(device, dim=6):
    trunk = torch.nn.Linear(dim, 8).to(device)
    heads = torch.nn.ModuleDict({task: torch.nn.Linear(8, 1) for task in TASKS}).to(device)
    optimizer = torch.optim.SGD([*trunk.parameters(), *heads.parameters()], lr=0.05)
    weights = dict.fromkeys(TASKS, 1.0)
    last = torch.ones(len(TASKS), device=device)

    def step(x, targets):
        shared = torch.tanh(trunk(x))
        losses = []
        for column, task in enumerate(TASKS):
            branch = shared.clone()
            branch.register_hook(lambda gradient, task=task: gradient * weights[task])
            losses.append((heads[task](branch).squeeze(1) - targets[:, column]).square().mean())
        optimizer.zero_grad(set_to_none=False)
        sum(losses).backward()
        optimizer.step()
        last.copy_(torch.stack(losses).detach())
        return last.clone(), trunk.weight.detach().clone()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(12, dim))
        args[1].copy_(torch.stack([args[0].sum(1), 3 * args[0][:, 0].sin()], 1))
        if k % 9 == 0:
            shares = (len(TASKS) * last / last.sum()).tolist()
            for task, share in zip(TASKS, shares, strict=True):
                weights[task] = share

    args = (torch.randn(12, dim, device=device), torch.randn(12, 2, device=device))
    return graphsafe.Step(step, args, refresh=refresh)
