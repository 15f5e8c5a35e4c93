"""Front ends, encoders and scoring for speech."""
import random
import threading

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


class CtcScorer(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.head = nn.Linear(16, 12, device=device)

    @torch.no_grad()
    def forward(self, frames, targets, frame_lengths, target_lengths):
        scores = self.head(frames).log_softmax(-1)
        return F.ctc_loss(scores, targets, frame_lengths, target_lengths, reduction="none", zero_infinity=True)


def build_ctc_scorer(device):
    frames = torch.randn(30, 4, 16, device=device)
    targets = torch.randint(1, 12, (4, 6), device=device)
    lengths = torch.tensor([30, 28, 24, 28], device=device)
    sizes = torch.tensor([6, 4, 4, 5], device=device)
    return CtcScorer(device), (frames, targets, lengths, sizes)


class UtteranceTagger(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.rnn = nn.GRU(8, 10, batch_first=True).to(device)
        self.out = nn.Linear(10, 5, device=device)

    @torch.no_grad()
    def forward(self, features, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(features, lengths, batch_first=True, enforce_sorted=False)
        hidden, _ = self.rnn(packed)
        padded, _ = nn.utils.rnn.pad_packed_sequence(hidden, batch_first=True, total_length=features.shape[1])
        return self.out(padded)


def build_utterance_tagger(device):
    return UtteranceTagger(device).eval(), (torch.randn(5, 12, 8, device=device), torch.tensor([12, 9, 9, 4, 2]))


def build_phoneme_histogram(device):
    table = torch.randn(40, 6, device=device)
    running = torch.zeros(6, device=device)

    def step(tokens):
        marks = F.one_hot(tokens)
        usage = marks.sum(dim=(0, 1)).float()
        profile = usage @ table[: usage.shape[0]]
        running.lerp_(profile / usage.sum(), 0.1)
        return running.clone()

    return step, (torch.randint(0, 40, (4, 50), device=device),)


class SpecAugment:
    def __init__(self, bands, width):
        self.bands, self.width = bands, width

    def __call__(self, spectrogram):
        out = spectrogram.clone()
        low = random.randrange(self.bands - self.width)
        out[:, low : low + self.width] = 0.0
        return out


def build_spec_augment(device):
    return SpecAugment(64, 8), (torch.rand(3, 64, 20, device=device),)


class DropEncoder(nn.Module):
    def __init__(self, device, depth=4, rate=0.3):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(24, 24, device=device) for _ in range(depth))
        self.rate = rate

    def forward(self, hidden):
        for block in self.blocks:
            skip = self.training and torch.rand([]) < self.rate
            if not skip:
                hidden = hidden + torch.tanh(block(hidden))
        return hidden


def build_drop_encoder(device):
    return DropEncoder(device).train(), (torch.randn(6, 24, device=device),)


class StreamingNorm:
    def __init__(self, bins, device):
        self.mean = torch.zeros(bins, device=device)
        self.power = torch.ones(bins, device=device)
        self.frames = 0

    def __call__(self, chunk):
        self.frames += chunk.shape[0]
        share = chunk.shape[0] / self.frames
        self.mean.add_((chunk.mean(0) - self.mean) * share)
        self.power.add_((chunk.square().mean(0) - self.power) * share)
        return (chunk - self.mean) / (self.power - self.mean.square()).clamp(min=1e-2).sqrt()


def build_streaming_norm(device):
    return StreamingNorm(20, device), (torch.randn(10, 20, device=device),)


class PitchTracker:
    """Keeps the last sixteen frames and looks for the best lag over all of them."""

    def __init__(self, device, depth=16, width=128):
        self.frames = torch.zeros(depth, width, device=device)
        self.slot = torch.zeros(1, dtype=torch.long, device=device)
        self.lags = list(range(8, 64, 8))

    def __call__(self, frame):
        self.frames.index_copy_(0, self.slot, frame.unsqueeze(0))
        self.slot.add_(1).fmod_(self.frames.shape[0])
        scores = [(self.frames * self.frames.roll(lag, dims=1)).mean() for lag in self.lags]
        return torch.stack(scores).softmax(0)


def build_pitch_tracker(device):
    return PitchTracker(device), (torch.randn(128, device=device),)


def build_mel_frontend(device):
    n = 64
    phase = 2.0 * np.pi * np.outer(np.arange(n), np.arange(n // 2 + 1)) / n
    window = np.hanning(n)[:, None]
    cosine, sine = (torch.from_numpy(f(phase) * window).float().to(device) for f in (np.cos, np.sin))
    bank = torch.from_numpy(np.random.rand(n // 2 + 1, 16)).float().to(device)
    floor = np.float32(1e-4)

    @torch.no_grad()
    def step(wave):
        frames = wave.unfold(-1, n, n // 2)
        power = (frames @ cosine).square() + (frames @ sine).square()
        return torch.log(power @ bank + float(floor))

    return step, (torch.randn(2, 1024, device=device),)


class NoisyEncoder(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.project = nn.Conv1d(8, 16, 3, padding=1, device=device)
        self.norm = nn.BatchNorm1d(16, device=device)
        self.drop = nn.Dropout(0.2)
        self.seen = 0
        self.lock = threading.Lock()

    def forward(self, x):
        with self.lock:
            self.seen += x.shape[0]
        with torch.no_grad():
            return self.drop(self.norm(self.project(x)).relu())


def build_noisy_encoder(device):
    return NoisyEncoder(device).train(), (torch.randn(4, 8, 32, device=device),)


class LaggedMixer:
    def __init__(self, device):
        self.echo = torch.zeros(2, 4096, device=device)
        self.room = torch.rand(2, 4096, device=device)
        self.side = torch.cuda.Stream(device) if device.type == "cuda" else None

    def __call__(self, dry):
        if self.side is not None:
            self.side.wait_stream(torch.cuda.current_stream(dry.device))
        with torch.cuda.stream(self.side):
            self.echo.mul_(0.7).addcmul_(dry, self.room, value=0.3)
        bright = torch.tanh(dry * 1.5)
        if self.side is not None:
            torch.cuda.current_stream(dry.device).wait_stream(self.side)
        return bright + self.echo


def build_lagged_mixer(device):
    return LaggedMixer(device), (torch.randn(2, 4096, device=device),)
