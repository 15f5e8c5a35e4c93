"""Momentum contrast with a circular bank of negative keys."""
import copy

import torch
import torch.nn.functional as F
from torch import nn


class Encoder(nn.Module):
    def __init__(self, inputs, dim):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(inputs, 64), nn.ReLU(), nn.Linear(64, dim))

    def forward(self, x):
        return F.normalize(self.net(x), dim=-1)


class KeyBank(nn.Module):
    def __init__(self, size, dim):
        super().__init__()
        self.size = size
        self.register_buffer("keys", F.normalize(torch.randn(size, dim), dim=-1))
        self.register_buffer("head", torch.zeros(1, dtype=torch.long))

    @torch.no_grad()
    def enqueue(self, fresh):
        n = fresh.shape[0]
        at = int(self.head)
        self.keys[at : at + n] = fresh
        self.head[0] = (at + n) % self.size


class MoCo(nn.Module):
    def __init__(self, inputs, dim=16, size=256, momentum=0.99, temperature=0.1):
        super().__init__()
        self.query = Encoder(inputs, dim)
        self.key = copy.deepcopy(self.query).requires_grad_(False)
        self.bank = KeyBank(size, dim)
        self.momentum = momentum
        self.temperature = temperature

    @torch.no_grad()
    def _follow(self):
        for k, q in zip(self.key.parameters(), self.query.parameters()):
            k.lerp_(q, 1 - self.momentum)

    def forward(self, a, b):
        q = self.query(a)
        with torch.no_grad():
            self._follow()
            k = self.key(b)
        positive = (q * k).sum(-1, keepdim=True)
        negative = q @ self.bank.keys.clone().t()
        logits = torch.cat([positive, negative], 1) / self.temperature
        target = torch.zeros(logits.shape[0], dtype=torch.long, device=logits.device)
        loss = F.cross_entropy(logits, target)
        self.bank.enqueue(k)
        return loss


class PretrainStep:
    def __init__(self, model, lr=0.05):
        self.model = model
        self.params = list(model.query.parameters())
        self.lr = lr

    def __call__(self, a, b):
        loss = self.model(a, b)
        grads = torch.autograd.grad(loss, self.params)
        with torch.no_grad():
            torch._foreach_add_(self.params, grads, alpha=-self.lr)
        return loss.detach()


def build(device):
    torch.manual_seed(0)
    model = MoCo(20).to(device)
    a = torch.randn(32, 20, device=device)
    return PretrainStep(model), (a, a + 0.1 * torch.randn_like(a))
