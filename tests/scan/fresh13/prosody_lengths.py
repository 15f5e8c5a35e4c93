"""Text to speech: phones are stretched by their predicted durations, then decoded into frames."""

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
    def __init__(self, phones=40, width=32, mels=20):
        super().__init__()
        self.embed = nn.Embedding(phones, width)
        self.prosody = Prosody(width)
        self.tone = nn.Linear(1, width)
        self.style = [0.2, -0.1, 0.4, 0.0]
        self.style_in = nn.Linear(4, width)
        self.decoder = nn.GRU(width, width, batch_first=True)
        self.mel = nn.Linear(width, mels)

    def stretch(self, hidden, frames):
        rows = hidden.repeat_interleave(frames.flatten(), dim=1)
        return rows

    def forward(self, phones):
        hidden = self.embed(phones)
        frames, pitch = self.prosody(hidden)
        style = torch.tensor(self.style, device=phones.device)
        hidden = hidden + self.tone(pitch) + self.style_in(style)
        rows = self.stretch(hidden, frames)
        decoded, _ = self.decoder(rows)
        return self.mel(decoded)


def build(device):
    torch.manual_seed(5)
    speaker = Speaker().to(device).eval().requires_grad_(False)
    phones = torch.randint(0, 40, (1, 12), device=device)
    return speaker, (phones,)
