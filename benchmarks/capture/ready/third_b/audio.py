"""Streaming audio front ends."""
import math
from contextlib import nullcontext

import torch


def lane(device):
    return torch.cuda.Stream(device) if device.type == "cuda" else None


def on(stream):
    return torch.cuda.stream(stream) if stream is not None else nullcontext()


class PitchLane:
    def __init__(self, device, bins=256):
        self.w = torch.randn(bins, bins, device=device) / math.sqrt(bins)
        self.feats = torch.zeros(64, bins, device=device)
        self.pitch = torch.zeros(64, device=device)
        self.side = lane(device)
        self.ready, self.done = (torch.cuda.Event(), torch.cuda.Event()) if self.side is not None else (None, None)

    def track(self):
        self.pitch.copy_(self.feats.abs().amax(dim=-1))

    def __call__(self, frames):
        if self.side is None:
            self.encode(frames)
            self.track()
            return self.pitch.clone(), self.feats.sum(dim=-1)
        main = torch.cuda.current_stream()
        self.ready.record(main)
        self.encode(frames)
        with on(self.side):
            self.side.wait_event(self.ready)
            self.track()
            self.done.record(self.side)
        energy = self.feats.sum(dim=-1)
        main.wait_event(self.done)
        return self.pitch.clone(), energy

    def encode(self, frames):
        h = frames
        for _ in range(10):
            h = torch.tanh(h @ self.w)
        self.feats.copy_(h)


def build_pitch_lane(device):
    return PitchLane(device), (torch.randn(64, 256, device=device),)


class BandLanes:
    """Low and high bands take turns in one scratch buffer."""

    def __init__(self, device, bins=128):
        self.low = torch.randn(bins, bins, device=device) / math.sqrt(bins)
        self.high = torch.randn(bins, bins, device=device) / math.sqrt(bins)
        self.scratch = torch.zeros(32, bins, device=device)
        self.out = torch.zeros(2, 32, device=device)
        self.side = lane(device)
        self.turn = torch.cuda.Event() if self.side is not None else None

    def band(self, frames, w, row):
        torch.mm(frames, w, out=self.scratch)
        self.scratch.tanh_()
        self.out[row].copy_(self.scratch.square().mean(dim=-1))

    def __call__(self, frames):
        if self.side is None:
            self.band(frames, self.low, 0)
            self.band(frames, self.high, 1)
            return self.out.clone()
        main = torch.cuda.current_stream()
        self.turn.record(main)
        self.side.wait_event(self.turn)
        with on(self.side):
            self.band(frames, self.low, 0)
        self.turn.record(self.side)
        main.wait_event(self.turn)
        self.band(frames, self.high, 1)
        return self.out.clone()


def build_band_lanes(device):
    return BandLanes(device), (torch.randn(32, 128, device=device),)


class VoiceGate:
    def __init__(self, device):
        self.level = torch.zeros(2, pin_memory=device.type == "cuda")
        self.meter = self.level.numpy()
        self.filter = torch.randn(32, 32, device=device) / 6

    def __call__(self, frame):
        speech = self.meter[0] > self.meter[1]
        out = torch.tanh(frame @ self.filter) if speech else frame * 0.1
        halves = frame.view(2, -1).abs().mean(dim=-1)
        self.level.copy_(halves, non_blocking=True)
        return out


def build_voice_gate(device):
    return VoiceGate(device), (torch.randn(4, 32, device=device),)


def build_log_spectrogram(device):
    dtype = torch.float16 if device.type == "cuda" else torch.float32
    window = torch.hann_window(400, device=device, dtype=dtype)
    bank = (torch.rand(201, 20, device=device) / 10).to(dtype)

    def step(wave):
        spectrum = torch.stft(wave, 400, 160, window=window, center=False, return_complex=True)
        power = torch.view_as_real(spectrum).square().sum(dim=-1)
        return torch.log10((power.transpose(-1, -2) @ bank).clamp(min=1e-4))

    return step, (torch.randn(2, 1200, device=device).to(dtype),)


class LengthMask:
    def __init__(self, device):
        self.ticks = torch.arange(24, device=device)
        self.w = torch.randn(16, 16, device=device) / 4
        self.known = {}

    def __call__(self, x, lengths):
        mask = self.known.get(x.shape)
        if mask is None:
            mask = self.known[x.shape] = (self.ticks < lengths.unsqueeze(1)).unsqueeze(-1).to(x.dtype)
        h = torch.tanh(x @ self.w) * mask
        return h.sum(dim=1) / mask.sum(dim=1)


def build_length_mask(device):
    lengths = torch.tensor([24, 5, 17, 5], device=device)
    return LengthMask(device), (torch.randn(4, 24, 16, device=device), lengths)


class OverlapRing:
    def __init__(self, device, hop=32, slots=8):
        self.ring = torch.zeros(hop * slots, device=device)
        self.ramp = torch.linspace(0, 1, hop * slots, device=device)
        self.hop, self.start = hop, 0

    def __call__(self, frame):
        self.ring.mul_(0.95)
        self.ring[self.start : self.start + self.hop].add_(frame)
        self.start = (self.start + self.hop) % self.ring.numel()
        return self.ring * self.ramp


def build_overlap_ring(device):
    return OverlapRing(device), (torch.randn(32, device=device),)


def build_cue_mixer(device):
    gain = torch.rand(64, device=device) + 0.5

    def step(bed, cue):
        staged = torch.from_numpy(cue)
        staged = staged.pin_memory() if device.type == "cuda" else staged.clone()
        return bed * gain + staged.to(device, non_blocking=True)

    return step, (torch.randn(2, 64, device=device), torch.randn(64).numpy())


POSITIONS = {}


def positions(dim, device, longest=128):
    if dim not in POSITIONS:
        t = torch.arange(longest, dtype=torch.float32).unsqueeze(1)
        rate = torch.exp(torch.arange(dim, dtype=torch.float32) * (-4.0 / dim))
        POSITIONS[dim] = torch.sin(t * rate).to(device)
    return POSITIONS[dim]


def build_mel_positions(device, batch=4):
    w = torch.randn(20, 20, device=device) / 5
    frames = 64 // batch

    def step(mel):
        return torch.relu((mel + positions(20, device)[:frames]) @ w).sum(dim=1)

    return step, (torch.randn(batch, frames, 20, device=device),)


class ArenaMixer:
    def __init__(self, device, n=64):
        self.arena = torch.zeros(3, n, device=device)
        self.window = torch.empty(0, device=device)
        self.fade = torch.linspace(1, 0, n, device=device)

    def __call__(self, a, b):
        self.window.set_(a)
        self.arena.resize_(3, a.shape[0])
        dry, wet, mix = self.arena.unbind(0)
        torch.mul(self.window, self.fade, out=dry)
        torch.mul(b, 1.0 - self.fade, out=wet)
        torch.add(dry, wet, out=mix)
        return mix.clone(), self.arena.square().sum(dim=-1)


def build_arena_mixer(device):
    return ArenaMixer(device), (torch.randn(64, device=device), torch.randn(64, device=device))
