"""Iterative magnitude pruning: from the milestone on, hooks on the parameters zero the gradients of pruned weights."""
import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe


class Pruner:
    def __init__(self, model):
        self.model, self.handles = model, []

    @torch.no_grad()
    def prune(self, share):
        for handle in self.handles:
            handle.remove()
        self.handles.clear()
        for p in self.model.parameters():
            if p.dim() < 2:
                continue
            bound = p.abs().flatten().kthvalue(int(share * p.numel())).values
            mask = (p.abs() > bound).to(p.dtype)
            p.mul_(mask)
            self.handles.append(p.register_hook(lambda grad, mask=mask: grad * mask))


def build(device):
    model = nn.Sequential(nn.Linear(30, 60), nn.ReLU(), nn.Linear(60, 60), nn.ReLU(), nn.Linear(60, 5)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    pruner = Pruner(model)
    x, y = torch.zeros(40, 30, device=device), torch.zeros(40, dtype=torch.long, device=device)
    centres = torch.randn(5, 30)

    def step(x, y):
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach(), torch.stack([(p == 0).sum() for p in model.parameters()])

    def refresh(args, kwargs, k):
        labels = torch.randint(5, (40,))
        args[0].copy_(centres[labels] + torch.randn(40, 30))
        args[1].copy_(labels)
        if k in (85, 145):
            pruner.prune(0.4 if k == 85 else 0.7)

    return graphsafe.Step(step, (x, y), {}, refresh=refresh)
