"""Kalman filters of many tracks in one step."""

import torch

from .models import MODELS, Motion


class Tracker:
    def __init__(self, motion: Motion, tracks: int, device, history: int = 8):
        self.motion = motion
        self.mean = torch.zeros(tracks, 4, device=device)
        self.cov = torch.eye(4, device=device).repeat(tracks, 1, 1)
        self.flags = torch.zeros(tracks, dtype=torch.int32, device=device)
        self.scores = torch.zeros(history, tracks, device=device)

    def predict(self):
        f = self.motion.transition
        return self.mean @ f.T, f @ self.cov @ f.T + self.motion.process

    def gain(self, cov: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        h = self.motion.observe
        cross = h @ cov
        factor, info = torch.linalg.cholesky_ex(cross @ h.T + self.motion.noise)
        self.flags.add_(info)
        half = torch.linalg.solve_triangular(factor, cross, upper=False)
        return torch.linalg.solve_triangular(factor.mT, half, upper=True).mT, factor

    def advance(self, measured: torch.Tensor) -> torch.Tensor:
        mean, cov = self.predict()
        gain, factor = self.gain(cov)
        residual = (measured - mean @ self.motion.observe.T).unsqueeze(-1)
        white = torch.linalg.solve_triangular(factor, residual, upper=False)
        self.mean.copy_(mean + (gain @ residual).squeeze(-1))
        self.cov.copy_(cov - gain @ self.motion.observe @ cov)
        self.scores.copy_(torch.roll(self.scores, 1, 0))
        self.scores[:1].copy_(white.square().sum((-2, -1)).unsqueeze(0))
        return self.scores.mean(0)

    def healthy(self) -> bool:
        """For the operator's console, between steps."""
        return not bool(self.flags.any())


def build(device):
    tracker = Tracker(MODELS["constant_velocity"](0.1, device), tracks=24, device=device)
    return tracker.advance, (torch.randn(24, 2, device=device),)
