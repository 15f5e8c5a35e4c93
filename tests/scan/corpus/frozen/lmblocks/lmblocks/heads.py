"""Embeddings before, heads after."""

import logging
import math

import numpy as np
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

log = logging.getLogger(__name__)


class Positions(nn.Module):
    def __init__(self, dim, length=32):
        super().__init__()
        self.table = nn.Embedding(length, dim)

    def ids(self, x):
        return torch.arange(x.shape[0]).to(x.device)  # guilty: host_positions GS304

    def forward(self, x):
        return x + self.table(self.ids(x))


# quiet: device_positions
class DevicePositions(Positions):
    def ids(self, x):
        return torch.arange(x.shape[0], device=x.device)


class ShiftRight(nn.Module):
    start = 1

    def __init__(self, vocab, dim):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)

    def forward(self, labels):
        shifted = torch.zeros_like(labels)
        shifted[1:] = labels[:-1].clone()
        shifted[0] = self.start  # guilty: start_token GS303
        return self.embed(shifted)


# quiet: start_token_filled
class ShiftRightFilled(ShiftRight):
    def forward(self, labels):
        shifted = labels.roll(1)
        shifted[:1].fill_(self.start)
        return self.embed(shifted)


class Temperature(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    @property
    def scale(self):
        return math.sqrt(self.dim)

    def forward(self, logits):
        return logits / torch.tensor(self.scale, device=logits.device)  # guilty: scale_tensor GS301


# quiet: scale_number
class TemperatureNumber(Temperature):
    def forward(self, logits):
        return logits / self.scale


class SegmentIds(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.embed = nn.Embedding(4, dim)

    def forward(self, x, segments=(0, 0, 1, 1)):
        ids = x.new_tensor(segments, dtype=torch.long)  # guilty: segment_ids GS301
        return x + self.embed(ids)


class VisibleKeys(nn.Module):
    def forward(self, scores, lengths):
        scores = scores[:, : lengths.max()]  # guilty: visible_keys GS203
        return scores.softmax(-1).amax(0).sum()


class Unpad(nn.Module):
    """Feeds only real tokens to the projection."""

    def __init__(self, dim):
        super().__init__()
        self.proj = nn.Linear(dim, dim)

    @staticmethod
    def indices(attention_mask):
        return torch.nonzero(attention_mask.flatten(), as_tuple=False).flatten()  # guilty: unpadded_rows GS201

    def forward(self, x, attention_mask):
        where = self.indices(attention_mask)
        return torch.zeros_like(x).index_copy_(0, where, self.proj(x[where]))


class FusedNorm(nn.Module):
    """Takes the cheap estimate where the exact one would disturb a capture."""

    def forward(self, x):
        capturing = x.is_cuda and torch.cuda.is_current_stream_capturing()  # guilty: capture_estimate GS608
        scale = x.abs().mean() if capturing else x.square().mean().sqrt()  # guilty: capture_estimate GS608
        return x / scale


class EarlyExit(nn.Module):
    def __init__(self, dim, depth=4):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(dim, dim) for _ in range(depth))

    def confident(self, x):
        return x.softmax(-1).amax(-1).min() > 0.4

    def forward(self, x):
        for layer in self.layers:
            x = layer(x).tanh()
            if self.confident(x):  # guilty: early_exit GS102
                break
        return x


# quiet: fixed_depth
class FixedDepth(EarlyExit):
    def __init__(self, dim, depth=4, run=2):
        super().__init__(dim, depth)
        self.run = run

    def forward(self, x):
        for number, layer in enumerate(self.layers):
            x = layer(x).tanh()
            if number + 1 >= self.run or x.shape[-1] < 2:
                break
        return x


class Reporting(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)

    def report(self, name, value):
        log.warning("%s: %.4f", name, value)  # guilty: norm_report GS104|GS101

    def forward(self, x):
        out = self.norm(x)
        self.report("norm", out.norm())
        return out


class LayerDrop(nn.Module):
    def __init__(self, dim, depth=3, rate=0.5):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(dim, dim) for _ in range(depth))
        self.rng = np.random.default_rng(3)

    def survivors(self):
        return (layer for layer in self.layers if self.rng.random() > 0.5)  # guilty: layer_drop GS504

    def forward(self, x):
        for layer in self.survivors():
            x = x + layer(x)
        return x


class PackedEncoder(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.rnn = nn.GRU(dim, dim, batch_first=True)

    def forward(self, x, lengths):
        lengths = lengths.cpu()  # guilty: packed_lengths GS103
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        return self.rnn(packed)[1]


class QuantizedActivation(nn.Module):
    def __init__(self):
        super().__init__()
        self.peak = lambda t: t.detach().abs().max().item()  # guilty: peak_lambda GS101

    def forward(self, x):
        step = self.peak(x) / 127
        return (x / step).round() * step


class AdaptiveHead(nn.Module):
    """The frequent words first."""

    def __init__(self, dim, vocab=12):
        super().__init__()
        self.loss = nn.AdaptiveLogSoftmaxWithLoss(dim, vocab, cutoffs=[4, 8], div_value=2.0)

    def forward(self, x, targets):
        return self.loss(x, targets).loss  # guilty: adaptive_head GS106|GS201|GS102
