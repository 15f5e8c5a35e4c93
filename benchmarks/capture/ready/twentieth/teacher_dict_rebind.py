"""Mean teacher with functional_call: the teacher's weights are a dict that each step replaces."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.func import functional_call

import graphsafe


class MeanTeacher:
    def __init__(self, device, m=0.95):
        self.student = nn.Sequential(nn.Linear(10, 24), nn.ReLU(), nn.Dropout(0.2), nn.Linear(24, 4)).to(device)
        self.teacher = {k: v.detach().clone() for k, v in self.student.named_parameters()}
        self.opt = torch.optim.SGD(self.student.parameters(), lr=0.05, momentum=0.9)
        self.m = m

    def train_step(self, weak, strong):
        with torch.no_grad():
            target = functional_call(self.student, self.teacher, (weak,)).softmax(-1)
        logp = self.student(strong).log_softmax(-1)
        loss = F.kl_div(logp, target, reduction="batchmean")
        self.opt.zero_grad(set_to_none=True)
        loss.backward()
        self.opt.step()
        with torch.no_grad():
            new = dict(self.student.named_parameters())
            self.teacher = {k: self.m * v + (1 - self.m) * new[k].detach() for k, v in self.teacher.items()}
        return loss.detach()


def build(device, batch=8):
    t = MeanTeacher(device)
    a, b = torch.randn(batch, 10, device=device), torch.randn(batch, 10, device=device)

    def refresh(args, kwargs, k):
        x = torch.randn(batch, 10)
        args[0].copy_(x + 0.05 * torch.randn(batch, 10))
        args[1].copy_(x + 0.5 * torch.randn(batch, 10))

    return graphsafe.Step(t.train_step, (a, b), refresh=refresh)
