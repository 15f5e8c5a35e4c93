"""A granular synthesiser: grains of a sample are overlapped under a window and shifted in pitch."""

import random

import torch
import torch.nn as nn


class Grains(nn.Module):
    def __init__(self, sample, size=128, count=8):
        super().__init__()
        self.register_buffer("sample", sample)
        self.size = size
        self.count = count

    def forward(self, speed):
        window = torch.hann_window(self.size).to(speed.device)
        out = torch.zeros(self.size * (self.count + 1) // 2, device=speed.device)
        ramp = torch.arange(self.size, device=speed.device)
        for index in range(self.count):
            start = random.randint(0, self.sample.shape[0] - 3 * self.size)
            place = start + ramp * speed.clamp(0.5, 2.0)
            low = place.floor().long()
            share = place - low
            grain = self.sample[low] * (1 - share) + self.sample[low + 1] * share
            offset = index * self.size // 2
            out[offset : offset + self.size].add_(grain * window)
        return out


class Voice(nn.Module):
    def __init__(self, sample, rate=16000.0):
        super().__init__()
        self.grains = Grains(sample)
        self.rate = rate
        self.phase = torch.zeros((), device=sample.device)

    def forward(self, speed, tremolo):
        sound = self.grains(speed)
        turns = torch.arange(sound.shape[0], device=sound.device) * tremolo / self.rate
        swing = 1 + 0.3 * torch.sin(2 * torch.pi * (turns + self.phase))
        self.phase = (self.phase + sound.shape[0] * tremolo / self.rate) % 1.0
        return torch.tanh(sound * swing)


def build(device):
    torch.manual_seed(19)
    sample = torch.randn(4096, device=device).cumsum(0) * 0.02
    voice = Voice(sample)
    return voice, (torch.tensor(1.1, device=device), torch.tensor(6.0, device=device))
