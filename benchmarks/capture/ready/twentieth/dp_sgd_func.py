"""DP-SGD with torch.func: per-sample gradients by vmap(grad(functional_call)), clipping, noise, manual update."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.func import functional_call, grad_and_value, vmap

import graphsafe


class CNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3, stride=2)
        self.norm = nn.GroupNorm(2, 4)
        self.fc = nn.Linear(4 * 9, 3)

    def forward(self, x):
        return self.fc(torch.relu(self.norm(self.conv(x))).flatten(1))


class PrivateTrainer:
    def __init__(self, device, clip=1.0, sigma=0.8, lr=0.05):
        self.model = CNN().to(device)
        self.params = {k: v.detach() for k, v in self.model.named_parameters()}
        self.clip, self.sigma, self.lr = clip, sigma, lr
        self.per_sample = vmap(grad_and_value(self.loss), in_dims=(None, 0, 0))

    def loss(self, params, x, y):
        logits = functional_call(self.model, params, (x[None],))
        return F.cross_entropy(logits, y[None])

    @torch.no_grad()
    def train_step(self, x, y):
        grads, losses = self.per_sample(self.params, x, y)
        norms = torch.stack([g.flatten(1).norm(dim=1) for g in grads.values()], 1).norm(dim=1)
        factor = (self.clip / (norms + 1e-6)).clamp(max=1.0)
        for name, p in self.params.items():
            g = torch.einsum("n,n...->...", factor, grads[name])
            g = g + self.sigma * self.clip * torch.randn_like(g)
            p.sub_(g, alpha=self.lr / x.shape[0])
        return losses.mean(), norms


def build(device, batch=6):
    t = PrivateTrainer(device)
    x = torch.randn(batch, 1, 8, 8, device=device)
    y = torch.randint(0, 3, (batch,), device=device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(batch, 1, 8, 8))
        args[1].copy_(torch.randint(0, 3, (batch,)))

    return graphsafe.Step(t.train_step, (x, y), refresh=refresh)
