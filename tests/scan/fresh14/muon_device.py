"""A hand-written Muon whose count, rate and momentum stand on the device."""

import torch
import torch.nn as nn
import torch.nn.functional as F


def orthogonal(matrix, rounds=5):
    a, b, c = 3.4445, -4.7750, 2.0315
    x = matrix / (matrix.norm() + 1e-7)
    for _ in range(rounds):
        square = x @ x.mT
        x = a * x + (b * square + c * square @ square) @ x
    return x


class Muon:
    def __init__(self, params, lr=0.02, momentum=0.95, warmup=20):
        self.params = list(params)
        self.lr = lr
        self.momentum = momentum
        self.warmup = warmup
        self.steps = torch.zeros((), device=self.params[0].device)
        self.moments = [torch.zeros_like(p) for p in self.params]

    def clip(self, limit=1.0):
        norm = torch.stack([p.grad.norm() for p in self.params]).norm()
        factor = (limit / (norm + 1e-6)).clamp(max=1.0)
        for p in self.params:
            p.grad.mul_(factor)

    @torch.no_grad()
    def step(self):
        self.clip()
        self.steps.add_(1)
        rate = self.lr * (self.steps / self.warmup).clamp(max=1.0)
        for p, moment in zip(self.params, self.moments, strict=True):
            moment.mul_(self.momentum).add_(p.grad)
            update = p.grad + self.momentum * moment
            if p.ndim == 2:
                update = orthogonal(update) * max(1.0, p.shape[0] / p.shape[1]) ** 0.5
            p.sub_(rate * update)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(12, 24), nn.GELU(), nn.Linear(24, 5))

    def forward(self, x):
        return self.layers(x)


def build(device):
    torch.manual_seed(9)
    net = Net().to(device)
    muon = Muon(net.parameters())

    def train(x, y):
        for p in net.parameters():
            p.grad = None
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        muon.step()
        return loss.detach()

    x = torch.randn(16, 12, device=device)
    return train, (x, torch.randint(0, 5, (16,), device=device))
