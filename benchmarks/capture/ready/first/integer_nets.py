"""Fixed-point layers."""
import torch
import torch.nn.functional as F
from torch import nn


class Int8Linear(nn.Module):
    def __init__(self, n, m, device):
        super().__init__()
        self.register_buffer("w", torch.randint(-8, 8, (n, m), device=device))

    def forward(self, x):
        return (x.long() @ self.w).float() / 64


class Lookup(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.register_buffer("codes", torch.randint(0, 4, (4, 8, 6), dtype=torch.int32, device=device))

    def forward(self, a):
        return torch.bmm(a, self.codes)


def fir(x, taps):
    return F.conv1d(x.view(1, 1, -1), taps.view(1, 1, -1)).view(-1)


class Spectrum:
    def __init__(self, bins=16):
        self.bins = bins

    def __call__(self, x):
        hist, _ = torch.histogram(x, bins=self.bins, range=(-3.0, 3.0))
        return hist / x.numel()


class Adjacency:
    def __init__(self, n, device):
        self.a = torch.randint(0, 2, (n, n), device=device)

    def hop(self, frontier):
        return torch.mv(self.a, frontier).clamp(max=1)


class AdjacencyByMask(Adjacency):
    def hop(self, frontier):
        return (self.a * frontier).sum(-1).clamp(max=1)


class CheckSum:
    def __init__(self, n, device):
        self.primes = torch.randint(1, 100, (n,), device=device)

    def __call__(self, words):
        return torch.dot(words, self.primes).bitwise_and(0xFFFF)


class CheckSumWide(CheckSum):
    def __call__(self, words):
        return (words * self.primes).sum().bitwise_and(0xFFFF)


class BitPlanes:
    def __init__(self, device):
        self.shifts = torch.arange(8, device=device)

    def __call__(self, codes, scale):
        planes = (codes.unsqueeze(-1) >> self.shifts) & 1
        weights = torch.ones_like(self.shifts) << self.shifts
        return (planes * weights).sum(-1).float() * scale


def build_int8_linear(device):
    return Int8Linear(8, 8, device), (torch.randint(-8, 8, (4, 8), dtype=torch.int8, device=device),)


def build_lookup(device):
    return Lookup(device), (torch.randint(0, 4, (4, 5, 8), dtype=torch.int32, device=device),)


def build_fir(device):
    return fir, (torch.randint(0, 9, (32,), device=device), torch.randint(-3, 4, (5,), device=device))


def build_spectrum(device):
    return Spectrum(), (torch.randn(256, device=device),)


def build_adjacency(device):
    return Adjacency(12, device).hop, (torch.randint(0, 2, (12,), device=device),)


def build_adjacency_mask(device):
    return AdjacencyByMask(12, device).hop, (torch.randint(0, 2, (12,), device=device),)


def build_check_sum(device):
    return CheckSum(24, device), (torch.randint(0, 1000, (24,), device=device),)


def build_check_sum_wide(device):
    return CheckSumWide(24, device), (torch.randint(0, 1000, (24,), device=device),)


def build_bit_planes(device):
    return BitPlanes(device), (torch.randint(0, 255, (4, 16), device=device), torch.rand(4, 16, device=device))
