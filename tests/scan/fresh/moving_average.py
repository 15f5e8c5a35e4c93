"""A teacher and student pair with running targets."""
import torch
import torch.nn.functional as F
from torch import nn


class Centre:
    def __init__(self, dim, device):
        self.value = torch.zeros(dim, device=device)

    def shift(self, batch):
        self.value = self.value * 0.9 + batch.mean(0) * 0.1


class DecaySchedule:
    def __init__(self, base, final, steps):
        self.base, self.final, self.steps, self.k = base, final, steps, 0

    def next(self):
        self.k = min(self.k + 1, self.steps)
        return self.base + (self.final - self.base) * self.k / self.steps


class Pair:
    def __init__(self, student, teacher, decay):
        self.student, self.teacher, self.decay = student, teacher, decay

    @torch.no_grad()
    def follow(self):
        m = self.decay.next()
        for t, s in zip(self.teacher.parameters(), self.student.parameters()):
            t.mul_(m).add_(s, alpha=1 - m)


class Distill:
    def __init__(self, pair, centre):
        self.pair, self.centre = pair, centre

    def __call__(self, view_a, view_b):
        with torch.no_grad():
            target = self.pair.teacher(view_a)
            probs = F.softmax((target - self.centre.value) / 0.07, -1)
        loss = -(probs * F.log_softmax(self.pair.student(view_b), -1)).sum(-1).mean()
        grads = torch.autograd.grad(loss, list(self.pair.student.parameters()))
        with torch.no_grad():
            for p, g in zip(self.pair.student.parameters(), grads):
                p.sub_(g, alpha=0.01)
        self.pair.follow()
        self.centre.shift(target)
        return loss.detach()


def build(device):
    pair = Pair(nn.Linear(12, 6).to(device), nn.Linear(12, 6).to(device), DecaySchedule(0.9, 1.0, 500))
    return Distill(pair, Centre(6, device)), (torch.randn(8, 12, device=device), torch.randn(8, 12, device=device))
