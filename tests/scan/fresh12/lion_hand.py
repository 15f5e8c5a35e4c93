"""A hand-written optimiser with bias correction around a regression step."""
import torch
import torch.nn as nn


class HandAdam:
    def __init__(self, params, lr=1e-2, betas=(0.9, 0.99), warmup=10):
        self.params = list(params)
        self.lr = lr
        self.b1, self.b2 = betas
        self.warmup = warmup
        self.t = 0
        self.m = [torch.zeros_like(p) for p in self.params]
        self.v = [torch.zeros_like(p) for p in self.params]

    @torch.no_grad()
    def step(self):
        self.t += 1
        c1 = 1 - self.b1**self.t
        c2 = 1 - self.b2**self.t
        lr = self.lr * min(1.0, self.t / self.warmup)
        for i, p in enumerate(self.params):
            self.m[i].mul_(self.b1).add_(p.grad, alpha=1 - self.b1)
            self.v[i] = self.b2 * self.v[i] + (1 - self.b2) * p.grad.square()
            p.addcdiv_(self.m[i] / c1, (self.v[i] / c2).sqrt() + 1e-8, value=-lr)


class Trainer:
    def __init__(self, model, lr):
        self.model = model
        self.optimizer = HandAdam(model.parameters(), lr)

    def clip(self, limit: float):
        total = torch.stack([p.grad.norm() for p in self.model.parameters()]).norm()
        if total > limit:
            for p in self.model.parameters():
                p.grad.mul_(limit / total)

    def __call__(self, x, y):
        for p in self.model.parameters():
            p.grad = None
        loss = nn.functional.mse_loss(self.model(x), y)
        loss.backward()
        self.clip(1.0)
        self.optimizer.step()
        return loss.detach()


def build(device):
    torch.manual_seed(9)
    model = nn.Sequential(nn.Linear(8, 32), nn.SiLU(), nn.Linear(32, 1)).to(device)
    return Trainer(model, 1e-2), (torch.randn(16, 8, device=device), torch.randn(16, 1, device=device))
