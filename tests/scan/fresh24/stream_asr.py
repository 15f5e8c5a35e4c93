"""Chunked streaming recogniser: feature normaliser, causal encoder with left context, greedy CTC."""
import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class ChunkConfig:
    mels: int = 20
    width: int = 32
    heads: int = 2
    layers: int = 2
    chunk: int = 8
    left: int = 24
    vocab: int = 30
    endpoint_frames: int = 40


class OnlineCmvn:
    """Running mean over everything heard since the stream was opened."""

    def __init__(self, mels, device):
        self.total = torch.zeros(mels, device=device)
        self.frames = 0

    def apply(self, feats):
        self.frames += feats.shape[1]
        self.total.add_(feats.sum(dim=(0, 1)))
        return feats - self.total / self.frames


class CausalBlock(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.qkv = nn.Linear(cfg.width, 3 * cfg.width)
        self.out = nn.Linear(cfg.width, cfg.width)
        self.ff = nn.Sequential(nn.LayerNorm(cfg.width), nn.Linear(cfg.width, 2 * cfg.width), nn.SiLU(),
                                nn.Linear(2 * cfg.width, cfg.width))

    def forward(self, x, context):
        k_in, v_in = context.window()
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        keys, values = torch.cat([k_in, k], 1), torch.cat([v_in, v], 1)
        context.push(keys, values)
        split = lambda t: t.unflatten(-1, (self.cfg.heads, -1)).transpose(1, 2)
        att = F.scaled_dot_product_attention(split(q), split(keys), split(values))
        x = x + self.out(att.transpose(1, 2).flatten(2))
        return x + self.ff(x)


class LeftContext:
    def __init__(self, cfg, device):
        self.left = cfg.left
        self.k = torch.zeros(1, cfg.left, cfg.width, device=device)
        self.v = torch.zeros(1, cfg.left, cfg.width, device=device)

    def window(self):
        return self.k, self.v

    def push(self, keys, values):
        self.k = keys[:, -self.left:]
        self.v = values[:, -self.left:]


class GreedyCtc:
    def __init__(self, cfg, device):
        self.last = torch.zeros(1, dtype=torch.long, device=device)

    def collapse(self, best):
        shifted = torch.cat([self.last, best[:-1]])
        emit = (best != 0) & (best != shifted)
        self.last.copy_(best[-1:])
        keep = torch.nonzero(emit).squeeze(-1)
        return best.index_select(0, keep)


class Endpointer:
    def __init__(self, cfg, device):
        self.limit = cfg.endpoint_frames
        self.silence = torch.zeros((), dtype=torch.long, device=device)

    def update(self, best):
        speech = (best != 0).any()
        self.silence.add_(best.shape[0]).mul_(~speech)
        if self.silence > self.limit:
            self.silence.zero_()
            return True
        return False


class Recognizer:
    def __init__(self, cfg, device):
        torch.manual_seed(7)
        self.cfg = cfg
        self.cmvn = OnlineCmvn(cfg.mels, device)
        self.embed = nn.Linear(cfg.mels, cfg.width).to(device)
        self.blocks = nn.ModuleList(CausalBlock(cfg) for _ in range(cfg.layers)).to(device)
        self.head = nn.Linear(cfg.width, cfg.vocab).to(device)
        self.contexts = [LeftContext(cfg, device) for _ in range(cfg.layers)]
        self.ctc = GreedyCtc(cfg, device)
        self.endpointer = Endpointer(cfg, device)
        self.scale = math.sqrt(cfg.width)

    @torch.no_grad()
    def accept(self, feats):
        x = self.embed(self.cmvn.apply(feats)) * self.scale
        for block, context in zip(self.blocks, self.contexts):
            x = block(x, context)
        logp = self.head(x).log_softmax(-1)[0]
        best = logp.argmax(-1)
        tokens = self.ctc.collapse(best)
        ended = self.endpointer.update(best)
        return tokens, logp, ended


def build(device):
    cfg = ChunkConfig()
    recognizer = Recognizer(cfg, device)
    feats = torch.randn(1, cfg.chunk, cfg.mels, device=device)
    return recognizer.accept, (feats,)
