"""From samples to features."""

import functools
import random
from types import MappingProxyType

import torch
from torch import nn
from torch.nn import functional as F

_noise_floor = None


class Window(nn.Module):
    def __init__(self, length=8):
        super().__init__()
        self.length = length

    def window(self, x):
        return torch.hann_window(self.length).type_as(x)  # guilty: host_window GS304

    def forward(self, x):
        return x.unfold(-1, self.length, 4) * self.window(x)


class RegisteredWindow(Window):
    # quiet: registered_window
    def __init__(self, length=8):
        super().__init__(length)
        self.register_buffer("hann", torch.hann_window(length), persistent=False)

    # quiet: registered_window
    def window(self, x):
        return self.hann


@functools.lru_cache(maxsize=8)
def frame_peak(frames):
    return frames.abs().amax(-1, keepdim=True)  # guilty: cached_peak GS705|GS701


class PeakNormalize(nn.Module):
    def forward(self, frames):
        return frames / frame_peak(frames)


# quiet: filterbank
@functools.lru_cache(maxsize=8)
def filterbank(bins, mels, device):
    centers = torch.linspace(0, bins, mels, device=device)
    return (1 - (torch.arange(bins, device=device)[:, None] - centers).abs() / 2).clamp(min=0)


# quiet: filterbank
class Mel(nn.Module):
    def forward(self, power):
        return power.abs() @ filterbank(power.shape[-1], 4, power.device)


class Resample(nn.Module):
    rates = MappingProxyType({"slow": 0.5, "fast": 2.0})

    def __init__(self):
        super().__init__()
        self.names = sorted(self.rates)

    def forward(self, x):
        rate = self.rates[random.choice(self.names)]  # guilty: resampling GS504
        return F.interpolate(x[None, None], scale_factor=rate, mode="linear").std() + x  # guilty: resampling GS504


class TimeMask(nn.Module):
    width = 3

    def begin(self, frames):
        return int(torch.randint(0, frames - self.width, (1,)))  # guilty: time_mask GS504

    def forward(self, mel):
        at = self.begin(mel.shape[0])
        mel = mel.clone()
        mel[at : at + self.width] = 0.0
        return mel


# quiet: time_mask_device
class TimeMaskDevice(TimeMask):
    def forward(self, mel):
        at = torch.randint(0, mel.shape[0] - self.width, (1,), device=mel.device)
        frames = torch.arange(mel.shape[0], device=mel.device)
        return torch.where(((frames >= at) & (frames < at + self.width))[:, None], 0.0, mel)


class Pitch(nn.Module):
    def forward(self, f0):
        voiced = f0 > 0
        return f0 - f0[voiced].log().mean()  # guilty: voiced_mean GS202


class SpectralGate(nn.Module):
    """Follows the level of the noise."""

    def forward(self, power):
        global _noise_floor
        now = power.abs().amin(-1)
        _noise_floor = now if _noise_floor is None else now.lerp(_noise_floor, 0.9)  # guilty: noise_floor GS703|GS701
        return power.abs() - _noise_floor[:, None]


class AutomaticGain(nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = 1.0

    def forward(self, x):
        self.gain *= 0.95  # guilty: falling_gain GS702
        return x * self.gain  # guilty: falling_gain GS702
