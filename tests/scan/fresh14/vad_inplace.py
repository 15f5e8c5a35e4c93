"""Voice activity in chunks of audio, with the state in buffers and the voiced frames as weights."""

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
    def __init__(self, batch=1, bands=24, width=32):
        super().__init__()
        self.frames = Frames(bands=bands)
        self.cell = nn.LSTMCell(bands, width)
        self.speech = nn.Linear(width, 1)
        self.register_buffer("hidden", torch.zeros(batch, width))
        self.register_buffer("memory", torch.zeros(batch, width))

    def scan(self, frames):
        scores = []
        hidden, memory = self.hidden, self.memory
        for frame in frames.unbind(1):
            hidden, memory = self.cell(frame, (hidden, memory))
            scores.append(self.speech(hidden))
        self.hidden.copy_(hidden)
        self.memory.copy_(memory)
        return torch.cat(scores, 1).sigmoid()

    def forward(self, chunk):
        frames = self.frames(chunk)
        score = self.scan(frames)
        voiced = (score > 0.5).unsqueeze(-1)
        speaker = torch.where(voiced, frames, 0.0).sum(1) / (voiced.sum(1) + 1)
        return score, F.normalize(speaker, dim=-1)


def build(device):
    torch.manual_seed(6)
    gate = VoiceGate().to(device).eval().requires_grad_(False)
    return gate, (torch.randn(1, 320, device=device),)
