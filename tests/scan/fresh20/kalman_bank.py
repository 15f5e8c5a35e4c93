"""A bank of constant-velocity Kalman filters with gating; one call is one radar scan."""
from typing import NamedTuple

import torch


class Bank(NamedTuple):
    mean: torch.Tensor
    cov: torch.Tensor
    missed: torch.Tensor


class Matrices(NamedTuple):
    move: torch.Tensor
    noise: torch.Tensor
    observe: torch.Tensor
    sensor: torch.Tensor
    eye: torch.Tensor


def matrices(dt, device):
    move = torch.eye(4)
    move[0, 2] = move[1, 3] = dt
    observe = torch.zeros(2, 4)
    observe[0, 0] = observe[1, 1] = 1
    parts = move, 0.02 * torch.eye(4), observe, 0.3 * torch.eye(2), torch.eye(4)
    return Matrices(*(p.to(device) for p in parts))


def inverse_2x2(s):
    a, b, c, d = s[:, 0, 0], s[:, 0, 1], s[:, 1, 0], s[:, 1, 1]
    det = a * d - b * c
    rows = torch.stack([d, -b, -c, a], -1).view(-1, 2, 2)
    return rows / det[:, None, None]


def scan(bank, m, hits, gate):
    mean = bank.mean @ m.move.t()
    cov = m.move @ bank.cov @ m.move.t() + m.noise
    innovation = hits - mean @ m.observe.t()
    s = m.observe @ cov @ m.observe.t() + m.sensor
    s_inv = inverse_2x2(s)
    distance = torch.einsum("ni,nij,nj->n", innovation, s_inv, innovation)
    accept = distance < gate
    gain = cov @ m.observe.t() @ s_inv
    better_mean = mean + (gain @ innovation[..., None]).squeeze(-1)
    better_cov = (m.eye - gain @ m.observe) @ cov
    bank.mean.copy_(torch.where(accept[:, None], better_mean, mean))
    bank.cov.copy_(torch.where(accept[:, None, None], better_cov, cov))
    bank.missed.add_(1).mul_(~accept)
    lost = bank.missed > 5
    start = torch.cat([hits, torch.zeros_like(hits)], -1)
    bank.mean.copy_(torch.where(lost[:, None], start, bank.mean))
    bank.missed.mul_(~lost)
    return bank.mean.clone(), distance, accept


def build(device):
    torch.manual_seed(0)
    tracks = 6
    bank = Bank(
        torch.randn(tracks, 4, device=device),
        torch.eye(4).to(device).repeat(tracks, 1, 1),
        torch.zeros(tracks, device=device),
    )
    m = matrices(0.1, device)
    args = torch.randn(tracks, 2, device=device), torch.full((tracks,), 9.0, device=device)
    return (lambda hits, gate: scan(bank, m, hits, gate)), args
