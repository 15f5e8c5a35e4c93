"""A keyword spotter: spectrogram, masks for training, and a small network; one step of training of its head."""

import random

import torch
import torch.nn as nn
import torch.nn.functional as F

FRAME, HOP, BINS, FRAMES, WORDS = 128, 64, 65, 31, 6


class Spectrogram(nn.Module):
    def forward(self, wave):
        window = torch.hann_window(FRAME).to(wave.device)
        frames = wave.unfold(-1, FRAME, HOP) * window
        return torch.fft.rfft(frames).abs().clamp(min=1e-5).log()


class Masks(nn.Module):
    def __init__(self, widest=8):
        super().__init__()
        self.widest = widest

    def forward(self, image):
        start = random.randint(0, BINS - self.widest)
        image[:, :, start : start + self.widest] = image.mean()
        return image


class Level(nn.Module):
    """Takes the level of recent clips from each spectrogram."""

    def __init__(self):
        super().__init__()
        self.level = torch.zeros(BINS)

    def place(self, device):
        self.level = self.level.to(device)
        return self

    def forward(self, image):
        now = image.mean((0, 1))
        self.level = torch.lerp(self.level, now, 0.02)
        return image - self.level


class Spotter(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.front = nn.Sequential(Spectrogram(), Level().place(device), Masks())
        self.net = nn.Sequential(nn.Linear(BINS, 32), nn.ReLU(), nn.Flatten(), nn.Linear(32 * FRAMES, WORDS))

    def forward(self, wave):
        with torch.no_grad():
            image = self.front(wave)
        return self.net(image)


def build(device):
    torch.manual_seed(13)
    net = Spotter(device).to(device)
    head = list(net.net.parameters())
    for p in head:
        p.grad = torch.zeros_like(p)

    def step(wave, word):
        for p in head:
            p.grad.zero_()
        loss = F.cross_entropy(net(wave), word)
        loss.backward()
        with torch.no_grad():
            torch._foreach_add_(head, [p.grad for p in head], alpha=-0.01)
        return loss.detach()

    wave = torch.randn(8, FRAME + HOP * (FRAMES - 1), device=device)
    return step, (wave, torch.randint(0, WORDS, (8,), device=device))
