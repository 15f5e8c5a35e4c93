"""Streaming two-band limiter with lookahead, for blocks of fixed length."""
import torch
import torch.nn.functional as F


def lowpass_taps(count, cutoff):
    n = torch.arange(count) - (count - 1) / 2
    taps = torch.sinc(2 * cutoff * n) * torch.hann_window(count, periodic=False)
    return taps / taps.sum()


class Crossover:
    def __init__(self, channels, cutoff, taps, device):
        kernel = lowpass_taps(taps, cutoff)
        self.kernel = kernel.to(device).expand(channels, 1, taps).contiguous()
        self.tail = torch.zeros(channels, taps - 1, device=device)
        self.channels = channels

    def split(self, block):
        joined = torch.cat([self.tail, block], dim=-1)
        low = F.conv1d(joined.unsqueeze(0), self.kernel, groups=self.channels)[0]
        self.tail.copy_(joined[:, -self.tail.shape[1]:])
        return low, block - low


class DelayLine:
    """Ring of `slots` blocks: what was pushed `slots - 1` blocks ago comes out."""

    def __init__(self, channels, block, slots, device):
        self.memory = torch.zeros(slots, channels, block, device=device)
        self.slots = slots
        self.head = 0

    def push(self, block):
        self.memory[self.head].copy_(block)
        self.head = (self.head + 1) % self.slots
        return self.memory[self.head].clone()


class PeakFollower:
    def __init__(self, channels, release, device):
        self.level = torch.zeros(channels, 1, device=device)
        self.release = release

    def track(self, band):
        peak = band.abs().amax(-1, keepdim=True)
        self.level = torch.maximum(peak, self.level * self.release)
        return self.level


class GainComputer:
    def __init__(self, ceiling):
        self.ceiling = ceiling

    def gain(self, level):
        g = torch.ones_like(level)
        over = level > self.ceiling
        g[over] = self.ceiling / level[over]
        return g


class Fade:
    def __init__(self, block):
        self.block = block

    def ramp(self, old, new):
        w = torch.hann_window(2 * self.block, periodic=False)[: self.block]
        w = w.to(new.device)
        return old + (new - old) * w


class Limiter:
    def __init__(self, channels, block, device, ceiling=0.7, slots=3):
        self.crossover = Crossover(channels, 0.12, 31, device)
        self.delays = [DelayLine(channels, block, slots, device) for _ in range(2)]
        self.followers = [PeakFollower(channels, r, device) for r in (0.98, 0.93)]
        self.computer = GainComputer(ceiling)
        self.fade = Fade(block)
        self.last_gain = [torch.ones(channels, 1, device=device) for _ in range(2)]

    def band(self, k, signal):
        level = self.followers[k].track(signal)
        gain = self.computer.gain(level)
        ramp = self.fade.ramp(self.last_gain[k], gain)
        self.last_gain[k].copy_(gain)
        return self.delays[k].push(signal) * ramp

    @torch.inference_mode()
    def process(self, block):
        low, high = self.crossover.split(block)
        mixed = self.band(0, low) + self.band(1, high)
        return mixed.clamp(-1.0, 1.0)


def build(device):
    limiter = Limiter(channels=2, block=128, device=device)
    block = torch.randn(2, 128, device=device)
    return limiter.process, (block,)
