"""Sharpness-aware minimization (SAM) over SGD: two passes in one step."""
import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe


class SAM(torch.optim.Optimizer):
    def __init__(self, params, base, rho=0.05, **kw):
        super().__init__(params, dict(rho=rho, **kw))
        self.base = base(self.param_groups, **kw)
        self.param_groups = self.base.param_groups

    @torch.no_grad()
    def first_step(self):
        norms = [p.grad.norm(p=2) for g in self.param_groups for p in g["params"] if p.grad is not None]
        norm = torch.stack(norms).norm(p=2)
        for g in self.param_groups:
            scale = g["rho"] / (norm + 1e-12)
            for p in g["params"]:
                if p.grad is None:
                    continue
                self.state[p]["old_p"] = p.data.clone()
                p.add_(p.grad * scale)
        self.zero_grad()

    @torch.no_grad()
    def second_step(self):
        for g in self.param_groups:
            for p in g["params"]:
                if p.grad is not None:
                    p.data = self.state[p]["old_p"]
        self.base.step()
        self.zero_grad()


class SAMInPlace(SAM):
    @torch.no_grad()
    def second_step(self):
        for g in self.param_groups:
            for p in g["params"]:
                if p.grad is not None:
                    p.copy_(self.state[p]["old_p"])
        self.base.step()
        self.zero_grad()


def build(device):
    torch.manual_seed(5)
    model = nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 4)).to(device)
    opt = SAMInPlace(model.parameters(), torch.optim.SGD, rho=0.05, lr=0.05, momentum=0.9)
    x = torch.randn(8, 12, device=device)
    y = torch.randint(4, (8,), device=device)

    def step(x, y):
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        opt.first_step()
        F.cross_entropy(model(x), y).backward()
        opt.second_step()
        return loss.detach()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(8, 12))
        args[1].copy_(torch.randint(4, (8,)))

    return graphsafe.Step(step, (x, y), refresh=refresh)
