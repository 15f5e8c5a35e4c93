"""Decode-side steps of a small serving stack: sampling, adapters, paged caches."""
import math
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F

import graphsafe


@dataclass
class Batch:
    logits: torch.Tensor
    inv_temp: torch.Tensor
    temperature: np.ndarray


class Sampler:
    greedy_below = 0.3

    def __call__(self, batch):
        if batch.temperature.max() < self.greedy_below:
            top = batch.logits.argmax(-1, keepdim=True)
            return torch.zeros_like(batch.logits).scatter_(1, top, 1.0)
        return torch.softmax(batch.logits * batch.inv_temp[:, None], -1)


def build_batch_sampler(device):
    batch = Batch(torch.randn(3, 32, device=device), torch.rand(3, device=device) + 0.5, np.array([0.02, 0.7, 1.0], dtype=np.float32))
    return Sampler(), (batch,)


class AdapterBank(torch.nn.Module):
    def __init__(self, n, dim, rank):
        super().__init__()
        self.base = torch.nn.Linear(dim, dim)
        self.down = torch.nn.Parameter(torch.randn(n, dim, rank) * 0.2)
        self.up = torch.nn.Parameter(torch.randn(n, rank, dim) * 0.2)

    @torch.no_grad()
    def forward(self, x, adapter_ids):
        down, up = self.down[adapter_ids], self.up[adapter_ids]
        return self.base(x) + torch.bmm(torch.bmm(x.unsqueeze(1), down), up).squeeze(1)


def build_lora_bank(device):
    bank = AdapterBank(8, 16, 4).to(device).eval()
    return bank, (torch.randn(6, 16, device=device), torch.tensor([0, 7, 3, 3, 1, 5]))


def penalised(logits, seen, params):
    penalty = params["decoding"]["repetition_penalty"]
    scaled = torch.where(logits > 0, logits / penalty, logits * penalty)
    logits = torch.where(seen, scaled, logits)
    return torch.log_softmax(logits + params["decoding"]["bias"], -1)


def build_repetition_penalty(device):
    params = {"decoding": {"repetition_penalty": torch.tensor(1.3), "bias": torch.randn(40, device=device) * 0.1}, "stop": [2]}
    return penalised, (torch.randn(2, 40, device=device), torch.rand(2, 40, device=device) > 0.5, params)


class CrossAttention(torch.nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.q, self.k, self.v, self.o = (torch.nn.Linear(dim, dim) for _ in range(4))
        self.heads = heads
        self.memory = None

    def split(self, x):
        return x.view(x.shape[0], x.shape[1], self.heads, -1).transpose(1, 2)

    @torch.no_grad()
    def forward(self, x, encoded):
        if self.memory is None:
            self.memory = self.split(self.k(encoded)), self.split(self.v(encoded))
        k, v = self.memory
        y = F.scaled_dot_product_attention(self.split(self.q(x)), k, v)
        return self.o(y.transpose(1, 2).reshape(x.shape))


def build_cross_attention(device):
    layer = CrossAttention(32, 4).to(device).eval()
    return layer, (torch.randn(2, 1, 32, device=device), torch.randn(2, 9, 32, device=device))


class Adapter:
    def __init__(self, dim, rank, device):
        self.down = torch.randn(dim, rank, device=device)
        self.up = torch.randn(rank, dim, device=device)
        self.version = 0

    def load(self, seed):
        g = torch.Generator().manual_seed(seed)
        self.down.copy_(torch.randn(self.down.shape, generator=g))
        self.up.copy_(torch.randn(self.up.shape, generator=g))
        self.version += 1


class MergedLinear:
    def __init__(self, weight):
        self.weight, self.merged, self.at = weight, None, -1

    def __call__(self, x, adapter):
        if self.at != adapter.version:
            self.merged = self.weight + 0.5 * adapter.down @ adapter.up
            self.at = adapter.version
        return x @ self.merged


def build_hot_swapped_adapter(device):
    layer = MergedLinear(torch.randn(24, 24, device=device))
    adapter = Adapter(24, 4, device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(args[0].shape, generator=torch.Generator().manual_seed(k)))
        if k % 12 == 11:
            args[1].load(k)

    return graphsafe.Step(layer, (torch.randn(4, 24, device=device), adapter), refresh=refresh)


class PagedCache:
    def __init__(self, pages, page, dim, device):
        self.page, self.tokens = page, 0
        self.free = list(range(pages))
        self.table = {}
        self.k = torch.zeros(pages, page, dim, device=device)
        self.v = torch.zeros(pages, page, dim, device=device)
        self.live = torch.full((pages, page), -math.inf, device=device)
        self.pos = torch.zeros(1, dtype=torch.long, device=device)
        self.zero = torch.zeros(1, device=device)

    def slot(self):
        logical = self.tokens // self.page
        if logical not in self.table:
            if not self.free:
                self.free.append(self.table.pop(min(self.table)))
            self.table[logical] = self.free.pop()
        self.tokens += 1
        return self.table[logical]

    def append(self, k, v):
        where, offset = self.slot(), self.pos % self.page
        self.k[where].index_copy_(0, offset, k)
        self.v[where].index_copy_(0, offset, v)
        self.live[where].index_copy_(0, offset, self.zero)
        self.pos.add_(1)

    def attend(self, q):
        k, v = self.k.flatten(0, 1), self.v.flatten(0, 1)
        return torch.softmax(q @ k.t() / k.shape[1] ** 0.5 + self.live.flatten(), -1) @ v


def build_paged_decode(device):
    cache = PagedCache(6, 16, 8, device)
    w = torch.randn(3, 8, 8, device=device) * 0.5

    def decode(x):
        cache.append(x @ w[0], x @ w[1])
        return cache.attend(x @ w[2])

    return decode, (torch.randn(1, 8, device=device),)


class Rotary:
    def __init__(self, dim, limit):
        self.dim, self.limit = dim, limit

    def tables(self, device):
        if not hasattr(self, "_cos"):
            freq = 1e4 ** (-torch.arange(0, self.dim, 2, device=device) / self.dim)
            angle = torch.outer(torch.arange(self.limit, device=device).float(), freq)
            self._cos, self._sin = angle.cos(), angle.sin()
        return self._cos, self._sin

    def __call__(self, x, pos):
        cos, sin = (t.index_select(0, pos) for t in self.tables(x.device))
        a, b = x.chunk(2, -1)
        return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)


def build_rotary_decode(device):
    rotary, pos = Rotary(16, 1024), torch.zeros(1, dtype=torch.long, device=device)

    def step(q):
        out = rotary(q, pos)
        pos.add_(1)
        return out

    return step, (torch.randn(4, 16, device=device),)


def build_shifted_router(device):
    gate = torch.randn(16, 8, device=device)

    def route(x, running_max):
        scores = x @ gate
        probs = torch.softmax(scores - running_max, -1)
        weight, expert = probs.topk(2, -1)
        return weight / weight.sum(-1, keepdim=True), expert, -(probs * probs.clamp_min(1e-9).log()).sum(-1)

    return route, (torch.randn(5, 16, device=device), torch.tensor(2.5))


def build_token_sampler(device):
    def sample(logits, keep):
        probs = torch.softmax(logits.masked_fill(~keep, -math.inf), -1)
        race = torch.empty_like(probs).exponential_()
        token = (probs / race).argmax(-1)
        return token, probs.gather(1, token[:, None])

    return sample, (torch.randn(6, 50, device=device), torch.rand(6, 50, device=device) > 0.3)


class Queue:
    def __init__(self, n, device):
        self.hidden = torch.randn(n, 12, device=device)
        self.arrival = np.sort(np.random.rand(n)).astype(np.float32)
        self.priority = torch.arange(n)


def build_scheduled_head(device):
    head = torch.nn.Linear(12, 20).to(device)
    stats = {"late": 0, "top": []}

    @torch.no_grad()
    def step(queue):
        waited = float(queue.arrival.max() - queue.arrival.min())
        if waited > 0.8:
            stats["late"] += 1
        stats["top"] = (stats["top"] + [int(queue.priority[0])])[-16:]
        return head(torch.tanh(queue.hidden))

    return step, (Queue(5, device),)
