"""Adapters, sampling and request plumbing."""
import collections
import functools
import random
import time

import torch
from torch import nn
from graphsafe import Step


class Attention(nn.Module):
    def __init__(self, dim, device):
        super().__init__()
        self.q = nn.Parameter(torch.randn(dim, dim, device=device) * 0.2, requires_grad=False)
        self.k = nn.Parameter(torch.randn(dim, dim, device=device) * 0.2, requires_grad=False)
        self.v = nn.Parameter(torch.randn(dim, dim, device=device) * 0.2, requires_grad=False)
        self.tuned = torch.randn(2, dim, dim, device=device) * 0.2
        self.turn = 0

    @functools.cached_property
    def fused(self):
        return torch.cat([self.q, self.k, self.v], 1)

    def forward(self, x):
        q, k, v = (x @ self.fused).chunk(3, -1)
        return nn.functional.scaled_dot_product_attention(q, k, v)

    def adopt(self):
        self.q.copy_(self.tuned[self.turn % 2])
        self.turn += 1
        self.__dict__.pop("fused", None)


def build_fused_qkv(device):
    model = Attention(16, device)
    x = torch.randn(2, 1, 6, 16, device=device)
    return Step(model, (x,), refresh=lambda args, kwargs, k: args[0].normal_(), events={"adopt": model.adopt})


class Sampler:
    def __init__(self, device, seed=7):
        self.rng = torch.Generator(device=device)
        self.rng.manual_seed(seed)

    def __call__(self, logits, temperature):
        probs = (logits / temperature.unsqueeze(1)).softmax(-1)
        noise = torch.empty_like(probs).exponential_(1.0, generator=self.rng)
        return probs.div_(noise).argmax(-1)


def build_private_sampler(device):
    logits = torch.randn(8, 64, device=device)
    temperature = torch.full((8,), 0.8, device=device)
    return Step(Sampler(device), (logits, temperature), refresh=lambda args, kwargs, k: args[0].normal_())


class Decode:
    def __init__(self, rows, longest, dim, device):
        self.keys = torch.randn(rows, longest, dim, device=device)
        self.values = torch.randn(rows, longest, dim, device=device)
        self.index = torch.arange(longest, device=device)
        self.chunks = 1

    def plan(self, lengths):
        self.chunks = -(-int(lengths.max()) // 16)

    def __call__(self, q, lengths):
        span = self.chunks * 16
        score = torch.einsum("bd,btd->bt", q, self.keys[:, :span])
        score = score.masked_fill(self.index[:span] >= lengths[:, None], float("-inf"))
        return torch.einsum("bt,btd->bd", score.softmax(-1), self.values[:, :span])


def build_planned(device):
    decode = Decode(4, 128, 16, device)
    q = torch.randn(4, 16, device=device)
    lengths = torch.full((4,), 3, dtype=torch.long, device=device)

    def refresh(args, kwargs, k):
        args[0].normal_()
        host = torch.tensor([3, 5, 7, 9]) + k % 110
        decode.plan(host)
        args[1].copy_(host)

    return Step(decode, (q, lengths), refresh=refresh)


class Penalised:
    def __init__(self, rows, vocab, device):
        self.counts = torch.zeros(rows, vocab, device=device)
        self.one = torch.ones(rows, 1, device=device)

    def __call__(self, logits):
        probs = (logits - 0.3 * self.counts).softmax(-1)
        token = probs.div_(torch.empty_like(probs).exponential_(1.0)).argmax(-1, keepdim=True)
        self.counts.mul_(0.99).scatter_add_(1, token, self.one)
        return token


def build_penalised(device):
    logits = torch.randn(6, 50, device=device)
    return Step(Penalised(6, 50, device), (logits,), refresh=lambda args, kwargs, k: args[0].normal_())


class Validated(nn.Module):
    def __init__(self, vocab, dim, device):
        super().__init__()
        self.vocab = vocab
        self.embed = nn.Embedding(vocab, dim, device=device)
        self.head = nn.Linear(dim, vocab, device=device)

    def forward(self, ids):
        if not torch.cuda.is_current_stream_capturing():
            top = int(ids.max())
            if top >= self.vocab:
                raise ValueError(f"token {top} is outside the vocabulary")
        return self.head(self.embed(ids).mean(1))


def build_validated(device):
    model = Validated(64, 16, device).requires_grad_(False)
    ids = torch.zeros(4, 5, dtype=torch.long, device=device)
    return Step(model, (ids,), refresh=lambda args, kwargs, k: args[0].random_(0, 64))


class Traced:
    def __init__(self, model, share=0.05):
        self.model, self.share = model, share
        self.calls = 0
        self.spans = collections.deque(maxlen=32)

    def __call__(self, x):
        self.calls += 1
        begin = time.perf_counter()
        y = self.model(x)
        if random.random() < self.share or self.calls % 64 == 0:
            self.spans.append((self.calls, time.perf_counter() - begin))
        return y


def build_traced(device):
    model = nn.Sequential(nn.Linear(16, 32), nn.SiLU(), nn.Linear(32, 4)).to(device).requires_grad_(False)
    x = torch.randn(4, 16, device=device)
    return Step(Traced(model), (x,), refresh=lambda args, kwargs, k: args[0].normal_())
