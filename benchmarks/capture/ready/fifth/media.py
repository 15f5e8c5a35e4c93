"""Frames, sounds and augmentations."""

import collections
import random

import torch
import torch.nn as nn
import torch.nn.functional as F

_GAINS = None


# --- a flip, rarely -------------------------------------------------------------------------------------------------
class RareFlip:
    """Augmentation with a random stream of its own, so that runs can be repeated."""

    def __init__(self, device, p=0.04):
        self.dice = random.Random(11)
        self.p = p
        self.kernel = torch.randn(3, 3, 3, 3, device=device) * 0.2

    def __call__(self, frames):
        if self.dice.random() < self.p:
            frames = frames.flip(-1)
        return F.conv2d(frames, self.kernel, padding=1) + frames


def build_rare_flip(device):
    return RareFlip(device), (torch.rand(2, 3, 8, 8, device=device),)


# --- film grain -----------------------------------------------------------------------------------------------------
class FilmGrain:
    """Grain that must not disturb the global random stream."""

    def __init__(self, device, amount=0.1):
        self.device, self.amount = device, amount
        self.source = torch.Generator(device=device).manual_seed(3)

    def __call__(self, frame):
        grain = torch.rand(frame.shape, generator=self.source, device=self.device)
        return (frame + self.amount * (grain - 0.5)).clamp(0, 1)


def build_film_grain(device):
    return FilmGrain(device), (torch.rand(3, 8, 8, device=device),)


# --- fade-out from a gain plan --------------------------------------------------------------------------------------
def _gain_plan(hold=100):
    for _ in range(hold):
        yield 1.0
    while True:
        yield 0.4


def fade(frame, bias):
    lifted = torch.sqrt(frame.clamp(min=0)) + bias
    return lifted * next(_GAINS)


def build_gain_plan(device):
    global _GAINS
    _GAINS = _gain_plan()
    return fade, (torch.rand(3, 6, 6, device=device), torch.rand(3, 1, 1, device=device))


# --- spectral denoiser ----------------------------------------------------------------------------------------------
class SpectralDenoiser(nn.Module):
    """Weakens quiet bins and turns the rest back into sound."""

    def __init__(self, n_fft=32):
        super().__init__()
        self.n_fft = n_fft
        self.register_buffer("window", torch.hann_window(n_fft))

    def forward(self, wave):
        spec = torch.stft(wave, self.n_fft, self.n_fft // 4, window=self.window, return_complex=True)
        power = spec.abs()
        spec = spec * (power / (power + power.mean(-1, keepdim=True)))
        return torch.istft(spec, self.n_fft, self.n_fft // 4, window=self.window, length=wave.shape[-1])


def build_spectral_denoiser(device):
    return SpectralDenoiser().to(device), (torch.randn(2, 256, device=device),)


# --- test-time statistics -------------------------------------------------------------------------------------------
class AdaptiveStem(nn.Module):
    """Adapts its normalisation to the video at hand: cumulative statistics, no momentum."""

    def __init__(self, channels=4):
        super().__init__()
        self.conv = nn.Conv2d(3, channels, 3, padding=1)
        self.norm = nn.BatchNorm2d(channels, momentum=None)

    @torch.no_grad()
    def forward(self, frames):
        y = self.norm(self.conv(frames))
        return torch.relu(y), self.norm.running_mean.clone()


def build_adaptive_stem(device):
    return AdaptiveStem().to(device).train(), (torch.rand(2, 3, 8, 8, device=device),)


# --- temporal smoothing in the caller's frame -----------------------------------------------------------------------
class InPlaceSmoother:
    """Smooths the caller's frame and hands it back, as the filters before and after it do."""

    def __init__(self, device, shape):
        self.last = torch.zeros(shape, device=device)

    @torch.no_grad()
    def __call__(self, frame):
        frame.data = torch.lerp(frame, self.last, 0.3)
        self.last.copy_(frame)
        return frame


def build_inplace_smoother(device):
    shape = (3, 6, 6)
    return InPlaceSmoother(device, shape), (torch.rand(shape, device=device),)


# --- noise gate -----------------------------------------------------------------------------------------------------
class NoiseGate(nn.Module):
    """Keeps a slowly rising noise floor for each bin and gates below it."""

    def __init__(self, n_fft=32):
        super().__init__()
        self.n_fft = n_fft
        self.register_buffer("window", torch.hann_window(n_fft))
        self.register_buffer("floor", torch.ones(n_fft // 2 + 1, 1))
        self.blocks = 0

    def forward(self, wave):
        spec = torch.stft(wave, self.n_fft, 8, window=self.window, return_complex=True).abs().mean(0)
        self.floor.copy_(torch.minimum(self.floor * 1.05, spec.mean(-1, keepdim=True)))
        self.blocks += 1
        open_gate = spec > 1.1 * self.floor
        return torch.where(open_gate, spec, 0.1 * spec)


def build_noise_gate(device):
    return NoiseGate().to(device), (torch.randn(2, 128, device=device),)


# --- affine jitter --------------------------------------------------------------------------------------------------
class AffineJitter:
    """Small random rotations drawn on the device; the trace name comes from the host and stays there."""

    def __init__(self, degrees=10.0):
        self.spread = degrees * 3.14159 / 180.0
        self.trace = collections.deque(maxlen=16)

    def __call__(self, frames):
        n = frames.shape[0]
        angle = (torch.rand(n, device=frames.device) * 2 - 1) * self.spread
        shift = (torch.rand(n, 2, 1, device=frames.device) - 0.5) * 0.1
        cos, sin = angle.cos(), angle.sin()
        rotation = torch.stack((cos, -sin, sin, cos), dim=-1).view(n, 2, 2)
        grid = F.affine_grid(torch.cat((rotation, shift), dim=-1), frames.shape, align_corners=False)
        self.trace.append(f"{random.random():.4f}")
        return F.grid_sample(frames, grid, padding_mode="border", align_corners=False)


def build_affine_jitter(device):
    return AffineJitter(), (torch.rand(3, 1, 8, 8, device=device),)


# --- blending planes ------------------------------------------------------------------------------------------------
class TemporalBlend:
    """Planes in a dictionary whose entries are assigned anew at each step: to the tensors that they already are."""

    def __init__(self, device, size=8):
        self.planes = {"luma": torch.zeros(size, size, device=device), "chroma": torch.zeros(2, size, size, device=device)}
        self.rates = {"luma": 0.3, "chroma": 0.1}
        self.even = torch.empty(size // 2, size, device=device)
        self.stats = collections.Counter()

    def __call__(self, luma, chroma):
        fields = {"luma": luma, "chroma": chroma}
        for name in sorted(self.planes):
            self.planes[name] = self.planes[name].lerp_(fields[name], self.rates[name])
            self.stats[name] += 1
        torch.mul(self.planes["luma"][::2], 1.5, out=self.even)
        self.planes["luma"][::2].copy_(self.even.clamp(max=1.0))
        return torch.cat((self.planes["luma"][None], self.planes["chroma"])).mul(255).to(torch.uint8)


def build_temporal_blend(device):
    return TemporalBlend(device), (torch.rand(8, 8, device=device), torch.rand(2, 8, 8, device=device))


# --- histogram equalisation -----------------------------------------------------------------------------------------
class Equaliser(nn.Module):
    def __init__(self, levels=32):
        super().__init__()
        self.levels = levels
        self.register_buffer("lut", torch.linspace(0, 1, levels))

    def forward(self, image):
        bins = (image * (self.levels - 0.01)).long().clamp_(0, self.levels - 1)
        flat = bins.flatten()
        histogram = torch.zeros(self.levels, dtype=torch.long, device=image.device)
        histogram.scatter_add_(0, flat, torch.ones_like(flat))
        curve = histogram.cumsum(0).to(self.lut.dtype) / flat.numel()
        self.lut.lerp_(curve, 0.25)
        return self.lut[bins]


def build_equaliser(device):
    return Equaliser().to(device), (torch.rand(16, 16, device=device).square(),)
