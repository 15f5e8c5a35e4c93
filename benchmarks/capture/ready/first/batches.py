"""Steps that take structured batches."""
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Packed:
    tokens: torch.Tensor
    lengths: torch.Tensor


@dataclass
class SamplingParams:
    temperature: torch.Tensor
    penalty: float = 1.1


@dataclass
class Request:
    hidden: torch.Tensor
    sampling: SamplingParams
    extra: dict = field(default_factory=dict)


class Window(NamedTuple):
    left: torch.Tensor
    right: torch.Tensor


class Pooler(nn.Module):
    def __init__(self, vocab=64, dim=32):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, batch):
        h = self.proj(self.emb(batch.tokens))
        longest = int(batch.lengths.max())
        return h[:, :longest].mean(1)


class MaskedPooler(Pooler):
    def forward(self, batch):
        h = self.proj(self.emb(batch.tokens))
        at = torch.arange(h.shape[1], device=h.device)
        live = (at[None] < batch.lengths[:, None]).unsqueeze(-1)
        return (h * live).sum(1) / live.sum(1).clamp(min=1)


class Head(nn.Module):
    def __init__(self, dim=32, vocab=64):
        super().__init__()
        self.lm = nn.Linear(dim, vocab)

    def forward(self, req):
        logits = self.lm(req.hidden)
        return F.log_softmax(logits / req.sampling.temperature, -1)


def mix_adapters(base, deltas, weights):
    out = base.clone()
    for d, w in zip(deltas, weights):
        out.add_(d * w)
    return out


def gate_rows(x, keep):
    parts = []
    for row, on in zip(x.unbind(0), keep):
        parts.append(row if on else torch.zeros_like(row))
    return torch.stack(parts)


def gather_rows(x, order):
    return x[order] * 2.0


class Fusion(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.a = nn.Linear(dim, dim)
        self.b = nn.Linear(dim, dim)

    def forward(self, views, meta):
        left, right = views.left, views.right
        if meta.get("swap", False):
            left, right = right, left
        return self.a(left) + torch.tanh(self.b(right))


class TreeFusion(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.a = nn.Linear(dim, dim)

    def forward(self, tree):
        (first, second), named = tree
        return self.a(first + second["v"]) * named.left - named.right


class Calibrator:
    def __init__(self, device, n=8):
        self.gain = torch.linspace(0.5, 1.5, n, device=device)

    def __call__(self, x, offsets):
        return x * self.gain + offsets.mean()


class Bias:
    def __init__(self, device, dim=16):
        self.table = torch.randn(dim, device=device)

    def run(self, x, shift):
        n = shift.item()
        return torch.roll(x, n, dims=-1) + self.table


def staged(x, host, scale):
    x = x + host.to(x.device, non_blocking=True)
    return x * scale


class StackedMasks:
    def __call__(self, q, masks):
        active = [m for m in masks if bool(m)]
        return q * len(active)


def affine(x, params):
    return x * params[0] + params[1]


def build_pooler(device):
    net = Pooler().to(device)
    return net, (Packed(torch.randint(0, 64, (4, 12), device=device), torch.tensor([3, 7, 5, 9])),)


def build_masked_pooler(device):
    net = MaskedPooler().to(device)
    return net, (Packed(torch.randint(0, 64, (4, 12), device=device), torch.tensor([3, 7, 5, 9], device=device)),)


def build_sampling_head(device):
    req = Request(torch.randn(4, 32, device=device), SamplingParams(torch.tensor(0.7)))
    return Head().to(device), (req,)


def build_adapter_mix(device):
    deltas = [torch.randn(16, 16, device=device) for _ in range(3)]
    return mix_adapters, (torch.randn(16, 16, device=device), deltas, [torch.tensor(v) for v in (0.2, 0.5, 0.3)])


def build_row_gate(device):
    return gate_rows, (torch.randn(6, 8, device=device), np.array([True, False, True, True, False, True]))


def build_row_gather(device):
    return gather_rows, (torch.randn(6, 8, device=device), torch.tensor([5, 3, 1, 0, 2, 4]))


def build_window_fusion(device):
    w = Window(torch.randn(4, 16, device=device), torch.randn(4, 16, device=device))
    return Fusion().to(device), (w, {"swap": torch.tensor(False), "id": "r-17"})


def build_tree_fusion(device):
    def t():
        return torch.randn(4, 16, device=device)

    return TreeFusion().to(device), (((t(), {"v": t(), "name": "b"}), Window(t(), t())),)


def build_calibrator(device):
    return Calibrator(device), (torch.randn(4, 8, device=device), torch.linspace(0, 1, 5))


def build_roller(device):
    return Bias(device).run, (torch.randn(3, 16, device=device), torch.tensor(3))


def build_staged(device):
    host = torch.linspace(0, 1, 32).pin_memory()
    return staged, (torch.randn(4, 32, device=device), host, 0.5)


def build_mask_stack(device):
    flags = [torch.tensor(v) for v in (True, False, True, True)]
    return StackedMasks(), (torch.randn(4, 4, device=device), flags)


def build_numpy_affine(device):
    return affine, (torch.randn(4, 4, device=device), np.array([1.5, -0.25]))
