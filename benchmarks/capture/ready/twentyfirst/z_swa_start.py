"""Stochastic weight averaging that starts after 750 iterations (the host counts them)."""
import torch
import torch.nn as nn

import graphsafe


class SWA:
    def __init__(self, model, start=750):
        self.start, self.iteration = start, 0
        self.average = [p.detach().clone() for p in model.parameters()]
        self.count = torch.zeros((), device=self.average[0].device)

    @torch.no_grad()
    def after_step(self, model):
        self.iteration += 1
        if self.iteration < self.start:
            return
        self.count.add_(1)
        for a, p in zip(self.average, model.parameters()):
            a.add_((p - a) / self.count)


def build(device):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3)).to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    swa = SWA(model)
    x, y = torch.randn(8, 8, device=device), torch.randint(3, (8,), device=device)

    def step(x, y):
        opt.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
        swa.after_step(model)
        return loss.detach()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(8, 8))
        args[1].copy_(torch.randint(3, (8,)))

    return graphsafe.Step(step, (x, y), refresh=refresh)
