"""A granular synthesiser whose grains are drawn on the device; window and phase are buffers."""

import torch
import torch.nn as nn


class Grains(nn.Module):
    def __init__(self, sample, size=128, count=8):
        super().__init__()
        self.register_buffer("sample", sample)
        self.register_buffer("window", torch.hann_window(size, device=sample.device))
        self.size = size
        self.count = count

    def forward(self, speed):
        out = torch.zeros(self.size * (self.count + 1) // 2, device=speed.device)
        ramp = torch.arange(self.size, device=speed.device)
        last = self.sample.shape[0] - 3 * self.size
        starts = torch.randint(0, last, (self.count, 1), device=speed.device)
        for index in range(self.count):
            place = starts[index] + ramp * speed.clamp(0.5, 2.0)
            low = place.floor().long()
            share = place - low
            grain = self.sample[low] * (1 - share) + self.sample[low + 1] * share
            offset = index * self.size // 2
            out[offset : offset + self.size].add_(grain * self.window)
        return out


class Voice(nn.Module):
    def __init__(self, sample, rate=16000.0):
        super().__init__()
        self.grains = Grains(sample)
        self.rate = rate
        self.register_buffer("phase", torch.zeros((), device=sample.device))

    def forward(self, speed, tremolo):
        sound = self.grains(speed)
        turns = torch.arange(sound.shape[0], device=sound.device) * tremolo / self.rate
        swing = 1 + 0.3 * torch.sin(2 * torch.pi * (turns + self.phase))
        self.phase.add_(sound.shape[0] * tremolo / self.rate).remainder_(1.0)
        return torch.tanh(sound * swing)


def build(device):
    torch.manual_seed(19)
    sample = torch.randn(4096, device=device).cumsum(0) * 0.02
    voice = Voice(sample)
    return voice, (torch.tensor(1.1, device=device), torch.tensor(6.0, device=device))
