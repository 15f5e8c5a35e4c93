"""One self-distillation step (DINO) with a hand-written momentum optimizer and an EMA teacher."""
import copy
import math

import torch
import torch.nn.functional as F
from torch import nn


class Head(nn.Module):
    def __init__(self, width, prototypes):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(width, 64), nn.GELU(), nn.Linear(64, 32))
        self.last = nn.Linear(32, prototypes, bias=False)

    def forward(self, x):
        return self.last(F.normalize(self.body(x), dim=-1))


class CosineMomentum:
    """Momentum of the teacher: from `base` to 1 over `total` iterations."""

    def __init__(self, base, total):
        self.base, self.total, self.iteration = base, total, 0

    def value(self):
        phase = math.pi * self.iteration / self.total
        return 1.0 - (1.0 - self.base) * (math.cos(phase) + 1.0) / 2.0

    def advance(self):
        self.iteration += 1


class Center:
    def __init__(self, prototypes, device, rate=0.9):
        self.rate = rate
        self.value = torch.zeros(prototypes, device=device)

    def update(self, logits):
        batch_mean = logits.mean(0)
        self.value = self.rate * self.value + (1 - self.rate) * batch_mean


class MomentumSGD:
    def __init__(self, params, lr, momentum=0.9, decay=1e-4):
        self.params = list(params)
        self.lr, self.momentum, self.decay = lr, momentum, decay
        self.velocity = [torch.zeros_like(p) for p in self.params]

    @torch.no_grad()
    def apply(self, grads):
        torch._foreach_mul_(self.velocity, self.momentum)
        torch._foreach_add_(self.velocity, grads)
        torch._foreach_add_(self.velocity, self.params, alpha=self.decay)
        torch._foreach_add_(self.params, self.velocity, alpha=-self.lr)


class Distiller:
    def __init__(self, student, device, prototypes, max_norm=1.0, steps=50):
        self.student = student
        self.teacher = copy.deepcopy(student).requires_grad_(False)
        self.center = Center(prototypes, device)
        self.schedule = CosineMomentum(0.9, steps)
        self.optimizer = MomentumSGD(self.student.parameters(), lr=0.05)
        self.max_norm = max_norm
        self.teacher_temp, self.student_temp = 0.06, 0.1

    def clip(self, grads):
        norm = torch.stack(torch._foreach_norm(grads)).norm()
        factor = self.max_norm / (float(norm) + 1e-6)
        if factor < 1.0:
            torch._foreach_mul_(grads, factor)
        return norm

    @torch.no_grad()
    def follow(self):
        m = self.schedule.value()
        for slow, fast in zip(self.teacher.parameters(), self.student.parameters()):
            slow.lerp_(fast, 1.0 - m)
        self.schedule.advance()

    def loss(self, views):
        with torch.no_grad():
            target = self.teacher(views[0])
            probs = F.softmax((target - self.center.value) / self.teacher_temp, -1)
        logits = self.student(views[1]) / self.student_temp
        return -(probs * F.log_softmax(logits, -1)).sum(-1).mean(), target

    def step(self, views):
        loss, target = self.loss(views)
        if not torch.isfinite(loss):
            return loss.detach(), loss.detach()
        grads = list(torch.autograd.grad(loss, self.optimizer.params))
        norm = self.clip(grads)
        self.optimizer.apply(grads)
        with torch.no_grad():
            self.center.update(target)
        self.follow()
        return loss.detach(), norm


def build(device):
    torch.manual_seed(3)
    student = Head(24, 40).to(device)
    trainer = Distiller(student, device, prototypes=40)
    views = torch.randn(2, 16, 24, device=device)
    return trainer.step, (views,)
