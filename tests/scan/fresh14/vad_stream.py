"""Voice activity in chunks of audio: a recurrent gate, and the mean of the voiced frames as speaker vector."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Frames(nn.Module):
    def __init__(self, window=64, hop=32, bands=24):
        super().__init__()
        self.window = window
        self.hop = hop
        self.bands = nn.Linear(window, bands)

    def forward(self, chunk):
        return F.gelu(self.bands(chunk.unfold(-1, self.window, self.hop)))


class VoiceGate(nn.Module):
    def __init__(self, bands=24, width=32):
        super().__init__()
        self.frames = Frames(bands=bands)
        self.cell = nn.LSTMCell(bands, width)
        self.speech = nn.Linear(width, 1)
        self.width = width
        self.reset(1, torch.device("cpu"))

    def reset(self, batch, device):
        self.hidden = torch.zeros(batch, self.width, device=device)
        self.memory = torch.zeros(batch, self.width, device=device)

    def scan(self, frames):
        scores = []
        hidden, memory = self.hidden, self.memory
        for frame in frames.unbind(1):
            hidden, memory = self.cell(frame, (hidden, memory))
            scores.append(self.speech(hidden))
        self.hidden, self.memory = hidden, memory
        return torch.cat(scores, 1).sigmoid()

    def forward(self, chunk):
        frames = self.frames(chunk)
        score = self.scan(frames)
        voiced = frames[score > 0.5]
        speaker = voiced.sum(0) / (voiced.shape[0] + 1)
        return score, F.normalize(speaker, dim=0)


def build(device):
    torch.manual_seed(6)
    gate = VoiceGate().to(device).eval().requires_grad_(False)
    gate.reset(1, device)
    return gate, (torch.randn(1, 320, device=device),)
