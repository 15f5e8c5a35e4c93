"""Lookahead around SGD: the slow weights move every fifth step."""
import torch
import torch.nn as nn

import graphsafe


class Lookahead:
    def __init__(self, optimizer, k=5, alpha=0.5):
        self.optimizer, self.k, self.alpha = optimizer, k, alpha
        self.slow = [[p.detach().clone() for p in g["params"]] for g in optimizer.param_groups]
        self.counter = 0

    @torch.no_grad()
    def update_slow(self):
        for group, slow in zip(self.optimizer.param_groups, self.slow):
            for p, s in zip(group["params"], slow):
                s.add_(p - s, alpha=self.alpha)
                p.copy_(s)

    def step(self):
        self.optimizer.step()
        self.counter += 1
        if self.counter >= self.k:
            self.counter = 0
            self.update_slow()

    def zero_grad(self):
        self.optimizer.zero_grad(set_to_none=True)


def build(device):
    torch.manual_seed(2)
    model = nn.Sequential(nn.Linear(8, 16), nn.Hardswish(), nn.Linear(16, 2)).to(device)
    opt = Lookahead(torch.optim.SGD(model.parameters(), lr=0.05))
    x, y = torch.randn(8, 8, device=device), torch.randn(8, 2, device=device)

    def step(x, y):
        opt.zero_grad()
        loss = (model(x) - y).pow(2).mean()
        loss.backward()
        opt.step()
        return loss.detach()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(8, 8))
        args[1].copy_(torch.randn(8, 2))

    return graphsafe.Step(step, (x, y), refresh=refresh)
