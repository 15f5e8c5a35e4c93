"""Steps in which Python decides by the value of a device tensor."""

import torch
import torch.nn.functional as F
from torch import nn


class Refine(nn.Module):
    """Gradient descent on a latent until the residual is small."""

    def __init__(self, width):
        super().__init__()
        self.decoder = nn.Linear(width, 2 * width)

    @torch.no_grad()
    def forward(self, target):
        z = target.new_zeros(target.shape[0], self.decoder.in_features)
        residual, rounds = target - self.decoder(z), 0
        while residual.norm() > 1e-2 and rounds < 5:  # guilty: refine GS102
            z = z + 0.1 * residual @ self.decoder.weight
            residual, rounds = target - self.decoder(z), rounds + 1
        return z


def build_refine(device):
    return Refine(8).to(device), (torch.randn(4, 16, device=device),)


class Quantize(nn.Module):
    """Symmetric int8 quantisation with one scale for two tensors."""

    def forward(self, a, b):
        scale = max(a.abs().amax(), b.abs().amax()) / 127.0  # guilty: quantize GS102
        return torch.round(a / scale), torch.round(b / scale)


def build_quantize(device):
    return Quantize(), (torch.randn(8, 8, device=device), torch.randn(8, 8, device=device))


class FiniteCheck(nn.Module):
    """A block that refuses to go on with what is not finite."""

    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, width))

    @torch.no_grad()
    def forward(self, x):
        y = x + self.mlp(self.norm(x))
        assert torch.isfinite(y).all(), "the block overflowed"  # guilty: finite_check GS102
        return y


def build_finite_check(device):
    return FiniteCheck(16).to(device), (torch.randn(4, 16, device=device),)


class SkippingExperts(nn.Module):
    """A mixture of experts that leaves out those that no token goes to."""

    def __init__(self, width, experts):
        super().__init__()
        self.router = nn.Linear(width, experts)
        self.experts = nn.ModuleList(nn.Linear(width, width) for _ in range(experts))

    @torch.no_grad()
    def forward(self, x):
        choice = self.router(x).argmax(-1)
        out = torch.zeros_like(x)
        for index, expert in enumerate(self.experts):
            chosen = (choice == index).unsqueeze(-1)
            if chosen.any():  # guilty: skipping_experts GS102
                out = torch.where(chosen, expert(x), out)
        return out


def build_skipping_experts(device):
    return SkippingExperts(16, 4).to(device), (torch.randn(8, 16, device=device),)


class NanGuard(nn.Module):
    """A loss that is left out of the sum when it is not a number."""

    def __init__(self, width):
        super().__init__()
        self.head = nn.Linear(width, 4)

    @torch.no_grad()
    def forward(self, x, labels):
        total = x.new_zeros(())
        for part in F.cross_entropy(self.head(x), labels, reduction="none").chunk(2):
            loss = part.mean()
            total = total if loss.isnan() else total + loss  # guilty: nan_guard GS102
        return total


def build_nan_guard(device):
    return NanGuard(8).to(device), (torch.randn(6, 8, device=device), torch.tensor([0, 1, 2, 3, 0, 1], device=device))
