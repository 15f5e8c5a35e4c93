"""Operations that wait for the device inside themselves."""

import torch
import torch.nn.functional as F
from torch import nn


class Whitening(nn.Module):
    """Whitens features by the Cholesky factor of their covariance."""

    def forward(self, x):
        centred = x - x.mean(0)
        covariance = centred.T @ centred / x.shape[0] + torch.eye(x.shape[1], device=x.device)
        factor = torch.linalg.cholesky(covariance)  # guilty: whitening GS106
        return torch.linalg.solve_triangular(factor, centred.T, upper=False).T


def build_whitening(device):
    return Whitening(), (torch.randn(32, 8, device=device),)


class KalmanGain(nn.Module):
    """The update of a Kalman filter, with an inverse."""

    def __init__(self, width):
        super().__init__()
        self.observe = nn.Parameter(torch.randn(4, width), requires_grad=False)

    def forward(self, state, covariance, measured):
        covariance = covariance @ covariance.T + torch.eye(covariance.shape[0], device=covariance.device)
        noise = self.observe @ covariance @ self.observe.T + torch.eye(4, device=state.device)
        gain = covariance @ self.observe.T @ torch.linalg.inv(noise)  # guilty: kalman_gain GS106
        return state + gain @ (measured - self.observe @ state)


def build_kalman_gain(device):
    state, measured = torch.randn(8, device=device), torch.randn(4, device=device)
    return KalmanGain(8).to(device), (state, torch.randn(8, 8, device=device), measured)


class SpectralFilter(nn.Module):
    """Filters a graph signal in the basis of its Laplacian."""

    def forward(self, signal, weights):
        weights = weights + weights.T
        laplacian = torch.diag(weights.sum(1)) - weights
        values, basis = torch.linalg.eigh(laplacian)  # guilty: spectral_filter GS106
        return basis @ (torch.exp(-values).unsqueeze(1) * (basis.T @ signal))


def build_spectral_filter(device):
    return SpectralFilter(), (torch.randn(6, 2, device=device), torch.rand(6, 6, device=device))


class SpeechLoss(nn.Module):
    """Connectionist temporal classification with lengths on the device."""

    def __init__(self, width, classes):
        super().__init__()
        self.head = nn.Linear(width, classes)

    @torch.no_grad()
    def forward(self, frames, targets, frame_lengths, target_lengths):
        scores = self.head(frames).log_softmax(-1)
        return F.ctc_loss(scores, targets, frame_lengths, target_lengths)  # guilty: speech_loss GS106


def build_speech_loss(device):
    frames, targets = torch.randn(12, 2, 8, device=device), torch.randint(1, 5, (2, 4), device=device)
    lengths = torch.full((2,), 12, device=device), torch.tensor([4, 3], device=device)
    return SpeechLoss(8, 5).to(device), (frames, targets, *lengths)


def change_frames(args, kwargs, k):
    args[0].normal_()
    args[1].random_(1, 5)


class LeastSquares(nn.Module):
    """Ridge regression solved in each step."""

    def forward(self, design, target):
        normal = design.T @ design + 0.1 * torch.eye(design.shape[1], device=design.device)
        return torch.linalg.solve(normal, design.T @ target)  # guilty: least_squares GS106


def build_least_squares(device):
    return LeastSquares(), (torch.randn(16, 4, device=device), torch.randn(16, device=device))


CHANGE = {"build_speech_loss": change_frames}
