"""Distillation with Lion, a Polyak-averaged teacher by foreach, and hooks that record activations."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe


class Lion(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0):
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if len(state) == 0:
                    state["exp_avg"] = torch.zeros_like(p)
                avg = state["exp_avg"]
                p.mul_(1 - group["lr"] * group["weight_decay"])
                update = avg.clone().mul_(b1).add_(p.grad, alpha=1 - b1).sign_()
                p.add_(update, alpha=-group["lr"])
                avg.mul_(b2).add_(p.grad, alpha=1 - b2)


class Student(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(12, 24), nn.GELU(), nn.Linear(24, 24), nn.GELU())
        self.head = nn.Linear(24, 6)

    def forward(self, x):
        return self.head(self.body(x))


class Distiller:
    def __init__(self, device):
        self.student = Student().to(device)
        self.teacher = copy.deepcopy(self.student).requires_grad_(False)
        self.opt = Lion(self.student.parameters(), lr=1e-3, weight_decay=0.1)
        self.acts = {}
        for name, net in (("s", self.student), ("t", self.teacher)):
            net.body.register_forward_hook(lambda m, i, o, name=name: self.acts.__setitem__(name, o))

    def step(self, x, y):
        logits = self.student(x)
        with torch.no_grad():
            soft = self.teacher(x + 0.1 * torch.randn_like(x)).div(2.0).softmax(-1)
        loss = F.cross_entropy(logits, y) + F.kl_div(logits.div(2.0).log_softmax(-1), soft, reduction="batchmean")
        loss = loss + 0.1 * F.mse_loss(self.acts["s"], self.acts["t"])
        self.opt.zero_grad(set_to_none=True)
        loss.backward()
        self.opt.step()
        with torch.no_grad():
            torch._foreach_lerp_(list(self.teacher.parameters()), list(self.student.parameters()), 0.01)
        return loss.detach()


def build(device):
    torch.manual_seed(12)
    d = Distiller(device)
    x = torch.randn(8, 12, device=device)
    y = torch.randint(6, (8,), device=device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(8, 12))
        args[1].copy_(torch.randint(6, (8,)))

    return graphsafe.Step(d.step, (x, y), refresh=refresh)
