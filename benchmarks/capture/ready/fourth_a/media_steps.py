"""Audio and image front ends."""
import itertools
import math
import time
from collections import deque

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

import graphsafe


def pinned(t, device):
    return t.pin_memory() if device.type == "cuda" else t


def noise(shape, k):
    return torch.randn(shape, generator=torch.Generator().manual_seed(31 * k + 5))


class GainControl:
    def __init__(self, device, seconds=4.0):
        self.level = torch.full((2, 1), 0.5, device=device)
        self.seconds, self.last = seconds, time.monotonic()

    def __call__(self, frame):
        now = time.monotonic()
        keep = math.exp(-min(now - self.last, 30.0) / self.seconds)
        self.last = now
        self.level.mul_(keep).add_(frame.abs().mean(dim=1, keepdim=True), alpha=1 - keep)
        return frame / (self.level + 0.05)


def build_gain_control(device):
    torch.manual_seed(1)
    return GainControl(device), (torch.randn(2, 160, device=device),)


def build_crop_and_pool(device):
    torch.manual_seed(2)
    conv = nn.Conv2d(3, 4, 3, padding=1).to(device).requires_grad_(False)

    def step(images):
        top, left = np.random.randint(0, 8, size=2)
        view = images[:, :, top : top + 16, left : left + 16]
        return F.adaptive_avg_pool2d(torch.relu(conv(view)), 4)

    return step, (torch.randn(2, 3, 24, 24, device=device),)


class FrameHistory:
    def __init__(self, device, span=4):
        self.frames = deque((torch.zeros(3, 12, device=device) for _ in range(span)), maxlen=span)
        self.mix = torch.linspace(0.4, 0.1, span, device=device)

    def __call__(self, frame):
        slot = self.frames.popleft()
        slot.copy_(frame)
        self.frames.append(slot)
        return torch.einsum("s,sbd->bd", self.mix, torch.stack(tuple(self.frames)))


def build_frame_history(device):
    torch.manual_seed(3)
    return FrameHistory(device), (torch.randn(3, 12, device=device),)


class Denoiser:
    def __init__(self, device, bins=33, speech=6.7):
        self.speech = speech
        self.floor = torch.full((bins,), 0.5, device=device)
        self.window = torch.hann_window(64, device=device)
        self.energy = pinned(torch.zeros(()), device)

    def __call__(self, frame):
        spec = torch.fft.rfft(frame * self.window)
        mag = spec.abs()
        if self.energy < self.speech:
            self.floor.lerp_(mag, 0.2)
        self.energy.copy_(mag.mean(), non_blocking=True)
        return torch.fft.irfft(spec * (1 - self.floor / (mag + 1e-3)).clamp(0.05, 1.0), n=64)


def build_denoiser(device):
    torch.manual_seed(4)
    return Denoiser(device), (torch.randn(64, device=device),)


class FilterBank:
    def __init__(self, bands=8):
        self.version, self.low, self.bands = 0, 0.0, bands

    def matrix(self, device, bins=32):
        centres = torch.linspace(self.low, 1.0, self.bands, device=device)[:, None]
        grid = torch.linspace(0.0, 1.0, bins, device=device)
        return torch.relu(1 - (grid - centres).abs() * self.bands)


class BandEnergies:
    def __init__(self, bank):
        self.bank, self.built, self.table = bank, None, None

    def __call__(self, power):
        if self.built != self.bank.version:
            self.table, self.built = self.bank.matrix(power.device), self.bank.version
        return torch.log1p(power @ self.table.t())


def build_band_energies(device):
    bank = FilterBank()

    def refresh(args, kwargs, k):
        args[0].copy_(noise((4, 32), k).square())
        if k % 6 == 5:
            bank.low = 0.1 * (k % 5 + 1)
            bank.version += 1

    torch.manual_seed(5)
    return graphsafe.Step(BandEnergies(bank), (torch.rand(4, 32, device=device),), {}, refresh=refresh)


def build_cutmix(device):
    torch.manual_seed(6)
    plan = (("mix", {"lam": np.array([0.7])}), ("box", np.array([3, 9, 2])))

    def step(images, *, plan):
        ops = dict(plan)
        lam = float(ops["mix"]["lam"][0])
        out = lam * images + (1 - lam) * images.flip(0)
        y, x, size = (int(v) for v in ops["box"])
        out[:, :, y : y + size + 1, x : x + size + 1] = images.roll(1, 0)[:, :, y : y + size + 1, x : x + size + 1]
        return out

    return graphsafe.Step(step, (torch.randn(3, 2, 16, 16, device=device),), {"plan": plan})


class DepthwiseTaps:
    def __init__(self, device, taps=5):
        self.taps, self.calls = torch.randn(6, taps, device=device), 0

    def __call__(self, x):
        self.calls += 1
        padded = F.pad(x, (4, 0))
        if self.calls % 2:
            return torch.tanh(sum(padded[..., i : i + x.shape[-1]] * self.taps[:, i : i + 1] for i in range(5)))
        return torch.tanh((padded.unfold(2, 5, 1) * self.taps[:, None]).sum(dim=-1))


def build_depthwise_taps(device):
    torch.manual_seed(7)
    return DepthwiseTaps(device), (torch.randn(2, 6, 40, device=device),)


def build_tiled_tone_map(device):
    torch.manual_seed(8)
    sizes = itertools.cycle((4, 7, 10, 16))
    curve = torch.rand(3, 1, 1, device=device) + 0.5

    def step(image):
        rows = image.split(next(sizes), dim=1)
        return torch.cat([r.clamp(min=0).pow(curve) / (1 + r.abs()) for r in rows], dim=1)

    return step, (torch.randn(3, 20, 20, device=device),)


class Overlap:
    def __init__(self, size=32):
        self.size, self.window = size, None

    def __call__(self, x):
        if self.window is None:
            ramp = np.sin(np.pi * (np.arange(self.size) + 0.5) / self.size)
            self.window = torch.from_numpy(ramp.astype(np.float32)).to(x.device)
        frames = x.unfold(-1, self.size, self.size // 2) * self.window
        return torch.fft.rfft(frames).abs().log1p()


def build_overlap(device):
    torch.manual_seed(9)
    return Overlap(), (torch.randn(2, 128, device=device),)


class Meter:
    def __init__(self, device):
        self.peaks = pinned(torch.zeros(2), device)
        self.trace, self.began = deque(maxlen=50), time.perf_counter()

    def __call__(self, block):
        self.trace.append((time.perf_counter() - self.began, self.peaks.max().item()))
        out = torch.tanh(block * 1.5)
        self.peaks.copy_(out.abs().amax(dim=1), non_blocking=True)
        return out, self.peaks


def build_meter(device):
    torch.manual_seed(10)
    return Meter(device), (torch.randn(2, 96, device=device),)
