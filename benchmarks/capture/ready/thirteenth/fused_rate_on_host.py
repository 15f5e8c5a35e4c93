"""Fine-tuning with fused AdamW; the cosine schedule fills the rate tensor, as the docs recommend for graphs."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe


class Trainer:
    def __init__(self, device):
        self.model = nn.Sequential(nn.Linear(48, 96), nn.GELU(), nn.LayerNorm(96), nn.Linear(96, 12)).to(device)
        self.rate = torch.tensor(2e-3)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=self.rate, weight_decay=0.02, fused=True, capturable=True)
        self.x = torch.zeros(64, 48, device=device)
        self.y = torch.zeros(64, dtype=torch.long, device=device)
        self.warm, self.total = 96, 400

    def schedule(self, k):
        if k < self.warm:
            return  # constant until the warm-up is over
        done = (k - self.warm) / (self.total - self.warm)
        self.rate.fill_(2e-3 * 0.5 * (1 + math.cos(math.pi * min(1.0, 4 * done))))

    def prepare(self, k):
        self.schedule(k)
        self.x.copy_(torch.randn(64, 48))
        self.y.copy_(torch.randint(12, (64,)))

    def step(self):
        loss = F.cross_entropy(self.model(self.x), self.y)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=False)
        return loss.detach()


def build(device):
    trainer = Trainer(device)
    return graphsafe.Step(trainer.step, (), {}, refresh=lambda args, kwargs, k: trainer.prepare(k))
