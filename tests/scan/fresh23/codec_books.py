"""Neural codec bottleneck: grouped vector quantisers with running averages and a straight-through gradient."""
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


class StraightThrough(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, codes, table, commit):
        picked = F.embedding(codes, table)
        ctx.save_for_backward(x, picked)
        ctx.commit = commit
        return picked

    @staticmethod
    def backward(ctx, grad):
        x, picked = ctx.saved_tensors
        return grad + ctx.commit * (x - picked) / x.numel(), None, None, None


@dataclass(frozen=True)
class BookConfig:
    entries: int = 20
    dim: int = 6
    keep: float = 0.97
    least: float = 0.8
    commit: float = 0.25


class Book(nn.Module):
    def __init__(self, cfg: BookConfig):
        super().__init__()
        self.cfg = cfg
        table = torch.randn(cfg.entries, cfg.dim) / cfg.dim**0.5
        self.register_buffer("table", table)
        self.register_buffer("mass", torch.ones(cfg.entries))
        self.register_buffer("sums", table.clone())
        self.register_buffer("revived", torch.zeros((), dtype=torch.long))

    @torch.no_grad()
    def learn(self, x, codes):
        hot = F.one_hot(codes, self.cfg.entries).to(x.dtype)
        self.mass.mul_(self.cfg.keep).add_(hot.sum(0), alpha=1 - self.cfg.keep)
        self.sums.mul_(self.cfg.keep).addmm_(hot.t(), x, alpha=1 - self.cfg.keep)
        stale = self.mass < self.cfg.least
        donors = x.index_select(0, torch.randint(0, x.shape[0], (self.cfg.entries,), device=x.device))
        self.sums.copy_(torch.where(stale[:, None], donors, self.sums))
        self.mass[stale] = 1.0
        self.revived += stale.sum()
        self.table.copy_(self.sums / self.mass.clamp_min(1e-4).unsqueeze(1))

    def forward(self, x):
        with torch.no_grad():
            codes = torch.cdist(x, self.table).argmin(-1)
        out = StraightThrough.apply(x, codes, self.table.clone(), self.cfg.commit)
        if self.training:
            self.learn(x.detach(), codes)
        return out, codes


class Codec(nn.Module):
    def __init__(self, groups=3, cfg=BookConfig()):
        super().__init__()
        wide = groups * cfg.dim
        self.groups = groups
        self.down = nn.Conv1d(1, wide, 8, stride=4, padding=2)
        self.books = nn.ModuleList(Book(cfg) for _ in range(groups))
        self.up = nn.ConvTranspose1d(wide, 1, 8, stride=4, padding=2)

    def forward(self, wave):
        z = self.down(wave)
        b, _, t = z.shape
        parts = z.transpose(1, 2).reshape(b * t, -1).chunk(self.groups, dim=-1)
        results = [book(part) for book, part in zip(self.books, parts)]
        merged = torch.cat([q for q, _ in results], -1).view(b, t, -1).transpose(1, 2)
        return self.up(merged), torch.stack([c for _, c in results])


class TrainCodec:
    def __init__(self, device):
        self.codec = Codec().to(device).train()
        self.weights = [p for p in self.codec.parameters() if p.requires_grad]
        self.rate = torch.full((), 0.05, device=device)

    def __call__(self, wave):
        recon, codes = self.codec(wave)
        loss = (recon - wave).abs().mean()
        grads = torch.autograd.grad(loss, self.weights)
        with torch.no_grad():
            for w, g in zip(self.weights, grads):
                w.sub_(self.rate * g)
        return loss.detach(), codes


def build_codec(device):
    torch.manual_seed(12)
    wave = torch.randn(4, 1, 48, device=device)
    return TrainCodec(device), (wave,)
