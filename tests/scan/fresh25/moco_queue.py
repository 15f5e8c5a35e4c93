"""Momentum-contrast pre-training step with a feature queue and an online codebook."""
import torch
import torch.nn.functional as F
from torch import nn


class Backbone(nn.Sequential):
    def __init__(self, width: int, dim: int):
        super().__init__(nn.Linear(width, 96), nn.GELU(), nn.Linear(96, 96), nn.GELU(), nn.Linear(96, dim))

    def embed(self, views: torch.Tensor) -> torch.Tensor:
        return F.normalize(self(views), dim=-1)


class FeatureQueue:
    def __init__(self, length: int, dim: int, device):
        self.rows = F.normalize(torch.randn(length, dim, device=device), dim=-1)
        self.head = 0

    def enqueue(self, keys: torch.Tensor) -> None:
        count = keys.shape[0]
        self.rows[self.head : self.head + count].copy_(keys)
        self.head = (self.head + count) % self.rows.shape[0]


class Codebook:
    def __init__(self, codes: int, dim: int, device):
        self.centres = F.normalize(torch.randn(codes, dim, device=device), dim=-1)
        self.usage = torch.ones(codes, device=device)

    def assign(self, keys: torch.Tensor) -> torch.Tensor:
        nearest = (keys @ self.centres.T).argmax(-1)
        counts = torch.bincount(nearest, minlength=self.usage.numel()).float()
        self.usage.lerp_(counts, 0.05)
        share = self.usage / self.usage.sum()
        return -(share * share.clamp_min(1e-6).log()).sum()


class MoCo:
    def __init__(self, width: int, dim: int, device: torch.device, tau: float = 0.2, momentum: float = 0.99):
        self.query = Backbone(width, dim).to(device)
        self.key = Backbone(width, dim).to(device).requires_grad_(False)
        self.key.load_state_dict(self.query.state_dict())
        self.queue = FeatureQueue(512, dim, device)
        self.codebook = Codebook(16, dim, device)
        self.prior = torch.linspace(0.5, 1.5, 16)
        self.tau, self.momentum, self.rate = tau, momentum, 0.05
        self.side = torch.cuda.Stream(device)

    def refresh_keys(self) -> None:
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side), torch.no_grad():
            for slow, fast in zip(self.key.parameters(), self.query.parameters()):
                slow.lerp_(fast, 1.0 - self.momentum)

    def contrast(self, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        positive = (q * k).sum(-1, keepdim=True)
        negative = q @ self.queue.rows.T
        logits = torch.cat([positive, negative], dim=1) / self.tau
        return (logits.logsumexp(dim=1) - logits[:, 0]).mean()

    def train_step(self, first: torch.Tensor, second: torch.Tensor):
        with torch.no_grad():
            k = self.key.embed(second)
        q = self.query.embed(first)
        balance = q @ self.codebook.centres.T
        loss = self.contrast(q, k)
        weight = self.prior.to(q.device)
        loss = loss + 0.01 * (weight * balance.softmax(-1).mean(0)).sum()
        parameters = list(self.query.parameters())
        gradients = torch.autograd.grad(loss, parameters)
        with torch.no_grad():
            for p, g in zip(parameters, gradients):
                p.sub_(g, alpha=self.rate)
            entropy = self.codebook.assign(k)
            self.refresh_keys()
            self.queue.enqueue(k)
        return loss.detach(), entropy


def build(device):
    trainer = MoCo(width=48, dim=32, device=device)
    views = torch.randn(64, 48, device=device)
    return trainer.train_step, (views, views + 0.1 * torch.randn(64, 48, device=device))
