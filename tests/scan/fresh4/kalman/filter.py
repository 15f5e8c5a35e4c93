from __future__ import annotations

from dataclasses import dataclass

import torch

from .models import ConstantVelocity


@dataclass
class Belief:
    mean: torch.Tensor
    cov: torch.Tensor

    def symmetric(self) -> "Belief":
        return Belief(self.mean, 0.5 * (self.cov + self.cov.mT))


class Gate:
    """The set of innovations that are believed."""

    def __init__(self, limit: float):
        self.limit = limit

    def __contains__(self, distance: torch.Tensor) -> bool:
        return bool((distance < self.limit).all())


class Kalman:
    def __init__(self, model: ConstantVelocity, belief: Belief, gate: Gate):
        self.model = model
        self.belief = belief
        self.gate = gate

    def predict(self) -> Belief:
        f = self.model.transition
        return Belief(
            self.belief.mean @ f.mT,
            f @ self.belief.cov @ f.mT + self.model.process_noise,
        )

    def __call__(self, z: torch.Tensor) -> torch.Tensor:
        prior = self.predict().symmetric()
        h = self.model.measure
        innovation = z - prior.mean @ h.mT
        spread = h @ prior.cov @ h.mT + self.model.sensor_noise
        gain = torch.linalg.solve(spread, h @ prior.cov).mT
        distance = innovation.square().sum(-1) / spread.diagonal(dim1=-2, dim2=-1).sum(-1)
        if distance in self.gate:
            mean = prior.mean + (gain @ innovation.unsqueeze(-1)).squeeze(-1)
            cov = prior.cov - gain @ h @ prior.cov
            self.belief = Belief(mean, cov)
        else:
            self.belief = prior
        return self.belief.mean
