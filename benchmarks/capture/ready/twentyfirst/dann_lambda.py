"""Domain-adversarial training: the gradient reversal's lambda follows the training progress."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe


class GradReverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, lambd):
        ctx.lambd = lambd
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return grad.neg() * ctx.lambd, None


class DANN(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(16, 32), nn.ReLU())
        self.classifier = nn.Linear(32, 5)
        self.domain = nn.Sequential(nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 2))

    def forward(self, x, lambd):
        f = self.features(x)
        return self.classifier(f), self.domain(GradReverse.apply(f, lambd))


class Trainer:
    def __init__(self, device, total=1000):
        self.model = DANN().to(device)
        self.opt = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9)
        self.iteration, self.total = 0, total

    def step(self, source, labels, target):
        p = self.iteration / self.total
        lambd = 2.0 / (1.0 + math.exp(-10 * p)) - 1
        self.iteration += 1
        self.opt.zero_grad(set_to_none=True)
        cls, dom_s = self.model(source, lambd)
        _, dom_t = self.model(target, lambd)
        loss = F.cross_entropy(cls, labels)
        loss = loss - dom_s.log_softmax(-1)[:, 0].mean() - dom_t.log_softmax(-1)[:, 1].mean()
        loss.backward()
        self.opt.step()
        return loss.detach()


def build(device):
    torch.manual_seed(15)
    trainer = Trainer(device)
    source = torch.randn(8, 16, device=device)
    labels = torch.randint(5, (8,), device=device)
    target = torch.randn(8, 16, device=device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(8, 16))
        args[1].copy_(torch.randint(5, (8,)))
        args[2].copy_(torch.randn(8, 16) + 0.5)

    return graphsafe.Step(trainer.step, (source, labels, target), refresh=refresh)
