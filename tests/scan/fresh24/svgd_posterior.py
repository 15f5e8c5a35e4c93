"""Stein variational gradient descent for Bayesian logistic regression."""
import math

import torch
import torch.nn.functional as F


class LogisticPosterior:
    """p(w, log alpha | X, y) with a Gamma prior on the precision alpha."""

    def __init__(self, features, labels, a=1.0, b=0.01):
        self.features, self.labels = features, labels
        self.a, self.b = a, b
        self.rows = features.shape[0]

    def log_prob(self, theta, x, y):
        w, log_alpha = theta[:, :-1], theta[:, -1]
        alpha = log_alpha.exp()
        logits = w @ x.t()
        fit = -F.binary_cross_entropy_with_logits(
            logits, y.expand_as(logits), reduction="none"
        ).mean(1) * self.rows
        prior = 0.5 * w.shape[1] * log_alpha - 0.5 * alpha * w.square().sum(1)
        hyper = self.a * log_alpha - self.b * alpha
        return fit + prior + hyper


class Minibatcher:
    def __init__(self, posterior, size):
        self.posterior, self.size = posterior, size

    def draw(self):
        rows = torch.randperm(self.posterior.rows)[: self.size]
        return self.posterior.features[rows], self.posterior.labels[rows]


class MedianRBF:
    def __init__(self, floor=1e-3):
        self.floor = floor

    def bandwidth(self, d2):
        n = d2.shape[0]
        median = d2.median().item()
        return max(0.5 * median / math.log(n + 1), self.floor)

    def __call__(self, theta):
        diff = theta[:, None] - theta[None, :]
        d2 = diff.square().sum(-1)
        h = self.bandwidth(d2)
        k = torch.exp(-d2 / (2 * h))
        repulsion = (k.unsqueeze(-1) * diff).sum(1) / h
        return k, repulsion


class AdaGradDirection:
    def __init__(self, lr=0.05, keep=0.9, eps=1e-6):
        self.lr, self.keep, self.eps = lr, keep, eps
        self.history = None

    def scale(self, phi):
        if self.history is None:
            self.history = phi.square()
        else:
            self.history = self.keep * self.history + (1 - self.keep) * phi.square()
        return self.lr * phi / (self.history.sqrt() + self.eps)


class SVGD:
    def __init__(self, posterior, particles, batch):
        self.posterior = posterior
        self.particles = particles
        self.batches = Minibatcher(posterior, batch)
        self.kernel = MedianRBF()
        self.direction = AdaGradDirection()

    def score(self, x, y):
        theta = self.particles.detach().requires_grad_(True)
        with torch.enable_grad():
            total = self.posterior.log_prob(theta, x, y).sum()
        return torch.autograd.grad(total, theta)[0]

    def update(self):
        x, y = self.batches.draw()
        score = self.score(x, y)
        k, repulsion = self.kernel(self.particles)
        phi = (k @ score + repulsion) / self.particles.shape[0]
        self.particles.add_(self.direction.scale(phi))

    def predict(self, queries):
        return torch.sigmoid(self.particles[:, :-1] @ queries.t()).mean(0)


class OnlineClassifier:
    """Each call moves the particles once and classifies the queries."""

    def __init__(self, sampler, threshold=0.5):
        self.sampler, self.threshold = sampler, threshold

    @torch.no_grad()
    def __call__(self, queries):
        self.sampler.update()
        p = self.sampler.predict(queries)
        sure = (p - self.threshold).abs() > 0.2
        return p, torch.where(sure, p.round(), -1.0)


def synthetic(rows, width, device):
    gen = torch.Generator().manual_seed(11)
    x = torch.randn(rows, width, generator=gen)
    w = torch.randn(width, generator=gen)
    y = (x @ w + 0.3 * torch.randn(rows, generator=gen) > 0).float()
    return x.to(device), y.to(device)


def build(device):
    features, labels = synthetic(256, 6, device)
    posterior = LogisticPosterior(features, labels)
    torch.manual_seed(5)
    particles = 0.1 * torch.randn(32, 7, device=device)
    sampler = SVGD(posterior, particles, batch=64)
    queries = torch.randn(10, 6, device=device)
    return OnlineClassifier(sampler), (queries,)
