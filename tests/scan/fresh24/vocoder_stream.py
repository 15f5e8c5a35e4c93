"""Streaming neural vocoder: overlap-add synthesis with carried convolution state."""
import math

import torch
import torch.nn.functional as F


class CarriedConv:
    """A causal convolution that remembers the tail of the last chunk."""

    def __init__(self, cin, cout, kernel, dilation, device):
        self.weight = torch.randn(cout, cin, kernel, device=device) / math.sqrt(cin * kernel)
        self.bias = torch.zeros(cout, device=device)
        self.dilation = dilation
        self.tail = torch.zeros(1, cin, (kernel - 1) * dilation, device=device)

    def __call__(self, x):
        joined = torch.cat([self.tail, x], dim=-1)
        self.tail.copy_(joined[..., joined.shape[-1] - self.tail.shape[-1]:])
        return F.conv1d(joined, self.weight, self.bias, dilation=self.dilation)

    def state(self):
        return [self.tail]


class ResidualUnit:
    def __init__(self, width, dilation, device):
        self.wide = CarriedConv(width, width, 3, dilation, device)
        self.thin = CarriedConv(width, width, 1, 1, device)

    def __call__(self, x):
        return x + self.thin(F.leaky_relu(self.wide(F.leaky_relu(x, 0.1)), 0.1))

    def state(self):
        return self.wide.state()


class HarmonicSource:
    """Sine excitation whose phase continues over chunks, plus breath noise where unvoiced."""

    def __init__(self, hop, rate, harmonics, device):
        self.hop = hop
        self.orders = torch.arange(1, harmonics + 1, device=device).view(1, -1, 1)
        self.phase = torch.zeros(1, 1, 1, device=device)
        self.step = 2 * math.pi / rate

    def __call__(self, f0):
        up = f0.repeat_interleave(self.hop, dim=-1).unsqueeze(1)
        phase = self.phase + torch.cumsum(up * self.step, -1)
        self.phase.copy_(torch.remainder(phase[..., -1:], 2 * math.pi))
        voiced = (up > 20.0).to(f0.dtype)
        sines = torch.sin(phase * self.orders) * voiced
        return sines * 0.1 + torch.randn_like(sines) * (0.003 + 0.03 * (1 - voiced))

    def state(self):
        return [self.phase]


class OverlapAdd:
    def __init__(self, frame, hop, device):
        self.hop = hop
        self.window = torch.hann_window(frame, device=device)
        self.carry = torch.zeros(1, frame - hop, device=device)

    def __call__(self, frames):
        n, size = frames.shape[1], frames.shape[2]
        columns = (frames * self.window).transpose(1, 2)
        total = (n - 1) * self.hop + size
        wave = F.fold(columns, (1, total), (1, size), stride=(1, self.hop)).view(1, total)
        ready = wave[:, :n * self.hop].clone()
        ready[:, :self.carry.shape[1]] += self.carry
        self.carry.copy_(wave[:, n * self.hop:])
        return ready

    def state(self):
        return [self.carry]


class Vocoder:
    def __init__(self, device, mels=16, width=24, hop=8):
        torch.manual_seed(21)
        self.mels_in = CarriedConv(mels, width, 3, 1, device)
        self.source = HarmonicSource(hop, 16000, 4, device)
        self.source_in = CarriedConv(4, width, 3, 1, device)
        self.units = [ResidualUnit(width, d, device) for d in (1, 3)]
        self.out = CarriedConv(width, 2, 3, 1, device)
        self.hop = hop
        self.ola = OverlapAdd(2 * hop, hop, device)
        self.level = torch.full((1, 1), 1e-3, device=device)

    def stages(self):
        return [self.mels_in, self.source, self.source_in, *self.units, self.out, self.ola]

    def open_stream(self):
        for stage in self.stages():
            for tensor in stage.state():
                tensor.zero_()
        self.level.fill_(1e-3)

    @torch.inference_mode()
    def synthesize(self, mel, f0):
        x = self.mels_in(mel).repeat_interleave(self.hop, dim=-1)
        x = x + self.source_in(self.source(f0))
        for unit in self.units:
            x = unit(x)
        left, right = self.out(F.leaky_relu(x)).chunk(2, dim=1)
        frames = torch.cat([left.view(1, -1, self.hop), right.view(1, -1, self.hop)], -1)
        wave = self.ola(frames)
        peak = wave.abs().amax(-1, keepdim=True)
        torch.maximum(self.level * 0.95, peak, out=self.level)
        return torch.tanh(wave / self.level.clamp_min(0.1))


def build(device, frames=4):
    vocoder = Vocoder(device)
    vocoder.open_stream()
    mel = torch.randn(1, 16, frames, device=device)
    f0 = torch.rand(1, frames, device=device) * 200
    return vocoder.synthesize, (mel, f0)
