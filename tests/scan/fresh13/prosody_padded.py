"""Text to speech: phones are stretched into a fixed number of frames, with a mask for the rest."""

import torch
import torch.nn as nn


class Prosody(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv = nn.Conv1d(width, width, 3, padding=1)
        self.duration = nn.Linear(width, 1)
        self.pitch = nn.Linear(width, 1)

    def forward(self, hidden):
        hidden = torch.relu(self.conv(hidden.transpose(1, 2))).transpose(1, 2)
        frames = self.duration(hidden).squeeze(-1).exp().round().clamp(1, 6).long()
        return frames, self.pitch(hidden)


class Speaker(nn.Module):
    def __init__(self, phones=40, width=32, mels=20, longest=48):
        super().__init__()
        self.embed = nn.Embedding(phones, width)
        self.prosody = Prosody(width)
        self.tone = nn.Linear(1, width)
        self.register_buffer("style", torch.tensor([0.2, -0.1, 0.4, 0.0]))
        self.register_buffer("clock", torch.arange(longest))
        self.style_in = nn.Linear(4, width)
        self.mix = nn.Conv1d(width, width, 5, padding=2)
        self.mel = nn.Linear(width, mels)

    def stretch(self, hidden, frames):
        ends = frames.cumsum(1)
        source = (self.clock.view(1, -1, 1) >= ends.unsqueeze(1)).sum(-1)
        spoken = self.clock.unsqueeze(0) < ends[:, -1:]
        source = source.clamp(max=hidden.shape[1] - 1)
        rows = hidden.gather(1, source.unsqueeze(-1).expand(-1, -1, hidden.shape[-1]))
        return rows * spoken.unsqueeze(-1), spoken

    def forward(self, phones):
        hidden = self.embed(phones)
        frames, pitch = self.prosody(hidden)
        hidden = hidden + self.tone(pitch) + self.style_in(self.style)
        rows, spoken = self.stretch(hidden, frames)
        decoded = torch.relu(self.mix(rows.transpose(1, 2))).transpose(1, 2)
        return self.mel(decoded) * spoken.unsqueeze(-1), spoken.sum(1)


def build(device):
    torch.manual_seed(5)
    speaker = Speaker().to(device).eval().requires_grad_(False)
    phones = torch.randint(0, 40, (2, 12), device=device)
    return speaker, (phones,)
