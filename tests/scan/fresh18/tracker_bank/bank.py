"""A bank of Kalman filters which all advance together."""

import torch

from .motion import LinearModel, constant_velocity


class TrackBank:
    """State and covariance of many tracks; both are kept in place."""

    def __init__(self, model: LinearModel, tracks: int, device):
        self.model = model
        self.mean = torch.zeros(tracks, model.order, device=device)
        self.cov = torch.eye(model.order, device=device).expand(tracks, -1, -1).clone()
        self._eye = torch.eye(model.order, device=device)

    def predict(self):
        m = self.model
        mean = self.mean @ m.transition.T
        cov = m.transition @ self.cov @ m.transition.T + m.process
        return mean, cov

    def gain(self, cov: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        m = self.model
        cross = m.observe @ cov
        innovation = cross @ m.observe.T + m.noise
        gain = torch.linalg.solve(innovation, cross).mT
        return gain, innovation

    def correct(self, mean, cov, measured):
        gain, innovation = self.gain(cov)
        residual = measured - mean @ self.model.observe.T
        new_mean = mean + (gain @ residual.unsqueeze(-1)).squeeze(-1)
        keep = self._eye - gain @ self.model.observe
        new_cov = keep @ cov @ keep.mT + gain @ self.model.noise @ gain.mT
        score = (residual.square() / innovation.diagonal(dim1=-2, dim2=-1)).sum(-1)
        return new_mean, new_cov, score

    def advance(self, measured: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        mean, cov = self.predict()
        mean, cov, score = self.correct(mean, cov, measured)
        self.mean.copy_(mean)
        self.cov.copy_(cov)
        return mean, score


def build(device):
    bank = TrackBank(constant_velocity(2, 0.1, device), tracks=24, device=device)
    measured = torch.randn(24, 2, device=device)
    return bank.advance, (measured,)
