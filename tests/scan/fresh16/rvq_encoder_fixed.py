"""The training-time encoder of an audio codec: residual codebooks, dead codes revived without a list of them."""

import torch
import torch.nn as nn

FRAMES, WIDTH, CODES, BOOKS, HOP = 32, 16, 24, 2, 8


class Codebook(nn.Module):
    def __init__(self, dead_below=0.2, decay=0.95):
        super().__init__()
        self.decay = decay
        self.dead_below = dead_below
        self.register_buffer("codes", torch.randn(CODES, WIDTH))
        self.register_buffer("usage", torch.ones(CODES))
        self.register_buffer("numbers", torch.arange(CODES))

    def update(self, frames, onehot):
        hits = onehot.sum(0)
        means = onehot.t() @ frames / hits.clamp(min=1.0).unsqueeze(1)
        mix = (1 - self.decay) * (hits > 0).unsqueeze(1)
        self.codes.lerp_(means, mix.to(means))
        self.usage.mul_(self.decay).add_(hits, alpha=1 - self.decay)

    def revive(self, frames):
        dead = (self.usage < self.dead_below).unsqueeze(1)
        picks = torch.randint(0, frames.shape[0], (CODES,), device=frames.device)
        self.codes.copy_(torch.where(dead, frames[picks], self.codes))

    def forward(self, frames):
        index = torch.cdist(frames, self.codes).argmin(1)
        onehot = (index.unsqueeze(1) == self.numbers).to(frames)
        self.update(frames, onehot)
        self.revive(frames)
        return index, self.codes[index]


class Codec(nn.Module):
    def __init__(self):
        super().__init__()
        self.front = nn.Conv1d(1, WIDTH, 2 * HOP, HOP, HOP // 2)
        self.books = nn.ModuleList(Codebook() for _ in range(BOOKS))

    @torch.no_grad()
    def forward(self, sound):
        rest = self.front(sound.unsqueeze(1)).transpose(1, 2).flatten(0, 1)
        indices = []
        for book in self.books:
            index, coded = book(rest)
            rest = rest - coded
            indices.append(index)
        return torch.stack(indices), rest.square().mean()


def build(device):
    torch.manual_seed(8)
    return Codec().to(device), (torch.randn(2, FRAMES * HOP, device=device),)
