"""From features to words."""

from dataclasses import dataclass, field

import torch
from torch import nn
from torch.nn import functional as F


def pad_mask(lengths):
    steps = torch.arange(int(lengths.max()), device=lengths.device)  # guilty: pad_mask GS101
    return steps >= lengths[:, None]


class Encoder(nn.Module):
    def __init__(self, dim=4):
        super().__init__()
        self.proj = nn.Linear(dim, dim)

    def forward(self, x, lengths):
        mask = pad_mask(lengths)
        return self.proj(x).masked_fill(mask[..., None], 0.0).sum(1)


# quiet: pad_mask_static
class StaticEncoder(Encoder):
    def forward(self, x, lengths):
        mask = torch.arange(x.shape[1], device=x.device) >= lengths[:, None]
        return self.proj(x).masked_fill(mask[..., None], 0.0).sum(1)


class StreamingConv(nn.Module):
    def __init__(self, dim, device, kernel=3):
        super().__init__()
        self.conv = nn.Conv1d(dim, dim, kernel)
        self.left = [torch.zeros(dim, kernel - 1, device=device)]

    def forward(self, x):
        x = torch.cat([self.left[0], x], -1)
        self.left[0] = x[:, -2:]  # guilty: left_context GS703
        return self.conv(x)


# quiet: left_context_copied
class StreamingConvCopied(StreamingConv):
    def forward(self, x):
        x = torch.cat([self.left[0], x], -1)
        self.left[0].copy_(x[:, -2:])
        return self.conv(x)


class StreamingPositions(nn.Module):
    period = 4

    def __init__(self, dim):
        super().__init__()
        self.table = nn.Parameter(torch.randn(self.period, dim))
        self.t = 0

    def forward(self, x):
        out = x + self.table[self.t]  # guilty: frame_position GS702
        self.t += 1  # guilty: frame_position GS702
        self.t %= self.period  # guilty: frame_position GS702
        return out


class Gate(nn.Module):
    """Leaves silence alone."""

    def __init__(self, inner, threshold=0.2):
        super().__init__()
        self.inner, self.threshold = inner, threshold

    def speaks(self, x):
        return x.pow(2).mean() > self.threshold

    def forward(self, x):
        if not self.speaks(x):  # guilty: silence GS102
            return torch.zeros_like(x)
        return self.inner(x)


class CtcLoss(nn.Module):
    def forward(self, logits, targets, lengths):
        frames = torch.full_like(lengths, logits.shape[0])
        return F.ctc_loss(logits.log_softmax(-1), targets, frames, lengths)  # guilty: ctc GS106|GS103|GS101


class GreedyText(nn.Module):
    def forward(self, logits):
        best = logits.argmax(-1)
        words = torch.unique_consecutive(best)  # guilty: collapsed_words GS201
        return words.float().sum() + logits.sum()


# quiet: collapsed_words_flags
class GreedyFlags(nn.Module):
    def forward(self, logits):
        best = logits.argmax(-1)
        first = F.pad(best[1:] != best[:-1], (1, 0), value=True)
        return torch.where(first, best, -1), logits.sum()


@dataclass(order=True)
class Hypothesis:
    score: float
    words: list = field(default_factory=list, compare=False)


class BeamSearch:
    def __init__(self, width=2):
        self.width = width
        self.beams = [Hypothesis(0.0)]

    def candidates(self, log_probs):
        values, words = log_probs.topk(self.width)
        for value, word in zip(values, words, strict=True):
            yield float(value), word  # guilty: beam_scores GS101

    def step(self, log_probs):
        best = max(score for score, _ in self.candidates(log_probs))
        return log_probs - best


class Utterances:
    """Utterances of several lengths, one behind the other."""

    def __init__(self, frames, lengths):
        self.frames, self.lengths = frames, lengths

    def __len__(self):
        return int(self.lengths.sum())  # guilty: utterance_frames GS101


class FrameMean(nn.Module):
    def forward(self, frames, lengths):
        utterances = Utterances(frames, lengths)
        return frames.sum(0) / len(utterances)
