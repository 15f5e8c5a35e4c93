"""Speech encoder of the transcription service: log-mel, two convolutions, a stack, pooling."""
import math

import torch
import torch.nn.functional as F
from torch import nn

FRAME, HOP, MELS = 400, 160, 40


def mel_bank(bins: int, mels: int) -> torch.Tensor:
    centres = torch.linspace(0, bins - 1, mels + 2)
    at = torch.arange(bins).unsqueeze(1)
    rise = (at - centres[:-2]) / (centres[1:-1] - centres[:-2])
    fall = (centres[2:] - at) / (centres[2:] - centres[1:-1])
    return torch.minimum(rise, fall).clamp_min(0)


class LogMel(nn.Module):
    def __init__(self):
        super().__init__()
        bins = FRAME // 2 + 1
        angle = 2 * math.pi * torch.outer(torch.arange(FRAME), torch.arange(bins)) / FRAME
        self.register_buffer("cos", angle.cos())
        self.register_buffer("sin", angle.sin())
        self.register_buffer("bank", mel_bank(bins, MELS))
        self._window = None

    @property
    def window(self):
        if self._window is None:
            self._window = torch.hann_window(FRAME, device=self.cos.device)
        return self._window

    def forward(self, wave):
        frames = wave.unfold(-1, FRAME, HOP) * self.window
        power = (frames @ self.cos).square() + (frames @ self.sin).square()
        return (power @ self.bank).clamp_min(1e-10).log10()


class Normalizer:
    """Corpus statistics of the training set."""

    centre = -4.0
    spread = 4.0

    def __call__(self, mel):
        stats = torch.tensor([self.centre, self.spread], device=mel.device)
        return (mel - stats[0]) / stats[1]


class Block(nn.Module):
    def __init__(self, width, heads=4):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        q, k, v = self.qkv(self.norm1(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        x = x + self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm2(x))


class SpeechEncoder(nn.Module):
    def __init__(self, width=64, layers=2):
        super().__init__()
        self.logmel = LogMel()
        self.normalize = Normalizer()
        self.conv1 = nn.Conv1d(MELS, width, 3, padding=1)
        self.conv2 = nn.Conv1d(width, width, 3, stride=2, padding=1)
        self.blocks = nn.ModuleList(Block(width) for _ in range(layers))
        self.energy_floor = -1.0

    def forward(self, wave):
        mel = self.normalize(self.logmel(wave))
        voiced = mel.mean(-1)[:, ::2] > self.energy_floor
        x = F.gelu(self.conv1(mel.transpose(1, 2)))
        x = F.gelu(self.conv2(x)).transpose(1, 2)
        for block in self.blocks:
            x = block(x)
        speech = x[voiced[:, : x.shape[1]]]
        return x.mean(1), speech.mean(0)


def build(device):
    torch.manual_seed(0)
    model = SpeechEncoder().to(device).eval().requires_grad_(False)
    wave = torch.randn(2, 16000, device=device)
    return model, (wave,)
