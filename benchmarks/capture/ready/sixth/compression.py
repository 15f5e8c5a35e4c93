"""Lossy codecs for images, audio and activations."""
import collections
import statistics

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


class RateControl:
    """Quantiser whose step follows a fixed budget plan."""

    def __init__(self):
        self.quality = np.array([0.05, 4.0])
        self.growth = np.array([1.01, 1.0])

    def __call__(self, block):
        width, limit = self.quality
        levels = torch.round(block / float(width)).clamp(-limit * 16, limit * 16)
        if width < 0.6:
            self.quality *= self.growth
        return levels * float(width)


def build_rate_control(device):
    return RateControl(), (torch.randn(8, 64, device=device),)


def build_dithered_coder(device):
    weights = torch.linspace(1.0, 2.0, 32, device=device)

    def step(block):
        torch.manual_seed(1234)
        dither = torch.rand_like(block) - 0.5
        coded = torch.round(block * weights * 8.0 + dither)
        return (coded - dither) / (8.0 * weights), coded

    return step, (torch.randn(16, 32, device=device),)


class DeltaCodec:
    """Sends differences, and every so often a whole frame."""

    def __init__(self, device, interval=90):
        self.reference = torch.zeros(4, 100, device=device)
        self.interval = interval

    def __call__(self, frame):
        if self.reference._version % self.interval > self.interval - 4:
            self.reference.copy_(frame)
            return frame * 1.0
        delta = torch.tanh(frame - self.reference)
        self.reference.mul_(0.98).add_(delta, alpha=0.2)
        return delta


def build_delta_codec(device):
    return DeltaCodec(device), (torch.randn(4, 100, device=device),)


class HeaderWriter:
    def __init__(self, device):
        self.header = torch.zeros(8, pin_memory=device.type == "cuda")
        self.packet = torch.zeros(40, device=device)
        self.view = self.header.numpy()

    def __call__(self, payload):
        self.view[0] += 1.0
        self.view[1] = self.view[0] % 16
        self.packet[:8].copy_(self.header, non_blocking=True)
        self.packet[8:].copy_(payload)
        return self.packet.clone()


def build_header_writer(device):
    return HeaderWriter(device), (torch.randn(32, device=device),)


class Codebook(nn.Module):
    def __init__(self, device, codes=16, width=6):
        super().__init__()
        self.codes = nn.Parameter(torch.randn(codes, width, device=device), requires_grad=False)

    @torch.no_grad()
    def forward(self, x):
        share = (-torch.cdist(x, self.codes).square()).softmax(1)
        centres = share.T @ x / share.sum(0).clamp(min=1e-3).unsqueeze(1)
        coded = share @ self.codes
        self.codes.data = torch.lerp(self.codes, centres, 0.2)
        return coded


def build_codebook(device):
    return Codebook(device), (torch.randn(64, 6, device=device),)


def build_wavelet_step(device):
    gain = torch.ones(2, device=device)

    def step(signal):
        taps = signal.new_tensor([[0.7071, 0.7071], [0.7071, -0.7071]])
        pairs = signal.unflatten(-1, (-1, 2))
        bands = pairs @ taps.T
        gain.lerp_(bands.abs().mean(dim=(0, 1)), 0.05)
        return F.softshrink(bands / gain, 0.1)

    return step, (torch.randn(5, 64, device=device),)


class VectorQuantiser(nn.Module):
    def __init__(self, device, codes=12, width=5):
        super().__init__()
        self.register_buffer("codes", torch.randn(codes, width, device=device))
        self.register_buffer("usage", torch.ones(codes, device=device))

    @torch.no_grad()
    def forward(self, x):
        share = (x @ self.codes.T).softmax(dim=1)
        if self.training:
            self.usage.lerp_(share.sum(0), 0.1)
            target = share.T @ x / share.sum(0).unsqueeze(1)
            self.codes = self.codes.lerp_(target, 0.1)
        return share @ self.codes


def build_vector_quantiser(device):
    return VectorQuantiser(device).train(), (torch.randn(40, 5, device=device),)


class RoundThrough(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, grad):
        return grad.clamp(-1.0, 1.0)


class LearnedStep(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.step_size = nn.Parameter(torch.full((10,), 0.3, device=device))
        self.optimizer = torch.optim.SGD(self.parameters(), lr=0.01, momentum=0.9)

    def forward(self, x):
        self.optimizer.zero_grad(set_to_none=True)
        noisy = x / self.step_size.clamp(min=0.05) + torch.rand_like(x) - 0.5
        rebuilt = RoundThrough.apply(noisy) * self.step_size
        loss = (rebuilt - x).square().mean() + 0.01 * self.step_size.square().sum()
        loss.backward()
        self.optimizer.step()
        return loss.detach(), self.step_size.grad.clone()


def build_learned_step(device):
    return LearnedStep(device), (torch.randn(20, 10, device=device),)


class BlockTransform:
    """Splits a plane into blocks that are views of one work buffer."""

    def __init__(self, device, size=8):
        k = np.arange(size)
        basis = np.cos(np.pi * (k[None] + 0.5) * k[:, None] / size) * np.sqrt(2.0 / size)
        basis[0] /= np.sqrt(2.0)
        self.basis = torch.from_numpy(basis).float().to(device)
        self.work = torch.zeros(size * 4, size * 4, device=device)
        self.blocks = self.work.view(4, size, 4, size).transpose(1, 2)
        self.low, self.high = self.blocks[..., : size // 2, : size // 2], self.blocks[..., size // 2 :, size // 2 :]
        self.ratios = []

    @torch.no_grad()
    def __call__(self, plane):
        self.work.copy_(plane)
        self.blocks.copy_(self.basis @ self.blocks @ self.basis.T)
        self.high.mul_(0.25)
        self.low.add_(self.low.sign(), alpha=0.01)
        self.ratios.append(self.high.numel() / self.work.numel())
        if len(self.ratios) == 100:
            self.ratios = [statistics.fmean(self.ratios)]
        return self.blocks.clone()


def build_block_transform(device):
    return BlockTransform(device), (torch.randn(32, 32, device=device),)


class AdaptiveStep:
    def __init__(self, device):
        self.width = torch.full((), 0.1, device=device)
        self.sent = collections.deque([0] * 4, maxlen=4)

    def __call__(self, block):
        levels = torch.round(block / self.width)
        bits = torch.log2(1.0 + levels.abs()).mean()
        factor = torch.where(bits > 2.0, self.width.new_full((), 1.05), self.width.new_full((), 0.97))
        decoded = levels * self.width
        self.width.copy_((self.width * factor).clamp(0.02, 2.0))
        self.sent.append(self.sent[-1] + block.numel())
        return decoded, bits


def build_adaptive_step(device):
    return AdaptiveStep(device), (torch.randn(6, 80, device=device),)
