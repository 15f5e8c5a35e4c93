"""Modules that remember frames."""

import torch
from torch import nn


class AlternatingFrames(nn.Module):
    def __init__(self, shape, device):
        super().__init__()
        self.frames = [torch.zeros(shape, device=device) for _ in range(2)]
        self.turn = 0

    def forward(self, x):
        self.turn ^= 1  # guilty: alternating_frames GS702
        self.frames[self.turn].copy_(x)  # guilty: alternating_frames GS702
        return x - self.frames[self.turn ^ 1]  # guilty: alternating_frames GS702


class SwappedFrames(nn.Module):
    def __init__(self, shape, device):
        super().__init__()
        self.front, self.back = torch.zeros(shape, device=device), torch.zeros(shape, device=device)

    def forward(self, x):
        self.front.copy_(x)
        moved = self.front - self.back
        self.front, self.back = self.back, self.front  # guilty: swapped_frames GS703|GS702
        return moved


# quiet: swapped_frames_copied
class CopiedFrames(SwappedFrames):
    def forward(self, x):
        moved = x - self.back
        self.front.copy_(self.back)
        self.back.copy_(x)
        return moved


class Background(nn.Module):
    def __init__(self, shape, device):
        super().__init__()
        self.model = torch.zeros(shape, device=device)

    def remember(self, **state):
        for name, value in state.items():
            setattr(self, name, value)  # guilty: background_model GS703

    def forward(self, x):
        foreground = x - self.model
        self.remember(model=torch.lerp(self.model, x, 0.1))  # guilty: background_model GS703
        return foreground


class KeyFrames(nn.Module):
    """Runs the expensive half for every third frame only."""

    def __init__(self, dim, device, every=3):
        super().__init__()
        self.deep, self.light = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.every, self.index = every, 0
        self.features = torch.zeros(2, dim, device=device)

    def is_key(self):
        index, self.index = self.index, self.index + 1  # guilty: key_frames GS702
        return index % self.every == 0

    def forward(self, x):
        if self.is_key():  # guilty: key_frames GS702
            self.features.copy_(self.deep(x))
        return self.light(x) + self.features
