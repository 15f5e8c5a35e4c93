import torch
import torch.nn.functional as F
from torch import nn


class ResidualStack(nn.Module):
    def __init__(self, channels, dilations=(1, 3)):
        super().__init__()
        self.convs = nn.ModuleList(
            nn.Conv1d(channels, channels, 3, padding=d, dilation=d) for d in dilations
        )

    def forward(self, x):
        for conv in self.convs:
            x = x + conv(F.leaky_relu(x, 0.1))
        return x


class Vocoder(nn.Module):
    HOP = 16

    def __init__(self, mels=20, channels=16, speaker_width=8):
        super().__init__()
        self.enter = nn.Conv1d(mels, channels, 5, padding=2)
        self.condition = nn.Linear(speaker_width, channels)
        self.up = nn.ModuleList(nn.ConvTranspose1d(channels, channels, 8, 4, 2) for _ in range(2))
        self.stacks = nn.ModuleList(ResidualStack(channels) for _ in range(2))
        self.leave = nn.Conv1d(channels, 1, 7, padding=3)

    def forward(self, mel, speaker, noise_scale):
        h = self.enter(mel) + self.condition(speaker).unsqueeze(-1)
        h = h + noise_scale * torch.randn_like(h)
        for up, stack in zip(self.up, self.stacks):
            h = stack(up(F.leaky_relu(h, 0.1)))
        return torch.tanh(self.leave(h)).squeeze(1)


class Voice:
    """The speaker whose embedding conditions the vocoder."""

    def __init__(self, speakers, width, device):
        gen = torch.Generator().manual_seed(21)
        self.table = torch.randn(speakers, width, generator=gen).to(device)
        self.embedding = self.table[0:1].clone()
        self.index = 0

    def select(self, index):
        if index != self.index:
            self.embedding = self.table[index : index + 1]
            self.index = index
