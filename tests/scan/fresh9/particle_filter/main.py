"""Bootstrap particle filter for a linear-Gaussian track."""

import math

import torch


class ParticleCloud:
    """Positions and log-weights, all on one device."""

    def __init__(self, count, dim, device):
        self.points = torch.randn(count, dim, device=device)
        self.logw = torch.full((count,), -math.log(count), device=device)

    @property
    def weights(self):
        return torch.softmax(self.logw, dim=0)

    @property
    def effective(self):
        return 1.0 / self.weights.square().sum()

    def reset_weights(self):
        self.logw.fill_(-math.log(self.logw.shape[0]))


class Filter:
    def __init__(self, cloud, noise=0.1, threshold=0.5):
        self.cloud = cloud
        self.noise = noise
        self.threshold = threshold

    def _propagate(self):
        points = self.cloud.points
        centred = points - points.mean(dim=0)
        cov = centred.T @ centred / points.shape[0]
        eye = torch.eye(points.shape[1], device=points.device)
        root = torch.linalg.cholesky(cov + eye)
        points.add_(self.noise * torch.randn_like(points) @ root.T)

    def _weigh(self, observation):
        gap = (self.cloud.points - observation).square().sum(dim=1)
        self.cloud.logw.sub_(0.5 * gap / self.noise)
        self.cloud.logw.sub_(torch.logsumexp(self.cloud.logw, dim=0))

    def _resample(self):
        count = self.cloud.logw.shape[0]
        copies = (self.cloud.weights * count).round().long()
        order = torch.arange(count, device=copies.device)
        chosen = torch.repeat_interleave(order, copies)
        picked = torch.nn.functional.pad(chosen, (0, count))[:count]
        self.cloud.points.copy_(self.cloud.points[picked])
        self.cloud.reset_weights()

    def step(self, observation):
        self._propagate()
        self._weigh(observation)
        if self.cloud.effective < self.threshold * self.cloud.logw.shape[0]:
            self._resample()
        return self.cloud.weights @ self.cloud.points


def build(device):
    tracker = Filter(ParticleCloud(64, 2, device))
    return tracker.step, (torch.zeros(2, device=device),)
