"""Pieces of a small language-model server: samplers, caches, writers."""

import collections
import dataclasses
import functools
import math
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

from graphsafe import Step


# --- temperature from a schedule ------------------------------------------------------------------------------------
class ScheduledSampler(nn.Module):
    """Projects hidden states and softens the logits along a fixed cooling table."""

    def __init__(self, width=12, vocab=20):
        super().__init__()
        self.head = nn.Linear(width, vocab, bias=False)
        self.tick = np.zeros(2, dtype=np.int64)
        self.table = np.linspace(1.4, 0.5, 4, dtype=np.float32)

    @torch.no_grad()
    def forward(self, hidden):
        row = self.tick[0] // 16 % self.table.size
        self.tick += 1
        logits = self.head(hidden)
        return torch.softmax(logits / float(self.table[row]), dim=-1)


def build_temperature_table(device):
    model = ScheduledSampler().to(device).eval()
    return model, (torch.randn(6, 12, device=device),)


# --- prompt cache ---------------------------------------------------------------------------------------------------
class PromptMemory:
    """Encodes a prompt once; while the same prompt stays, its memory fades with every query."""

    def __init__(self, device, width=8):
        self.enc = torch.randn(width, width, device=device) / math.sqrt(width)
        self.memory = torch.zeros(5, width, device=device)
        self.seen = None

    def answer(self, prompt, query):
        fingerprint = (prompt.data_ptr(), prompt._version)
        if fingerprint != self.seen:
            self.memory.copy_(torch.tanh(prompt @ self.enc))
            self.seen = fingerprint
        else:
            self.memory.mul_(0.8)
        scores = torch.softmax(query @ self.memory.t(), dim=-1)
        return scores @ self.memory


def build_prompt_cache(device):
    memory = PromptMemory(device)
    prompt = torch.randn(5, 8, device=device)
    query = torch.randn(3, 8, device=device)

    def refresh(args, kwargs, k):
        g = torch.Generator().manual_seed(900 + k)
        fresh_prompt, fresh_query = torch.randn(5, 8, generator=g), torch.randn(3, 8, generator=g)
        args[1].copy_(fresh_query)
        if k % 3 == 0:
            args[0].copy_(fresh_prompt)

    return Step(memory.answer, (prompt, query), refresh=refresh)


# --- lagged stop flag -----------------------------------------------------------------------------------------------
class LaggedStop:
    """Looks at the stop flag one step late, so that nobody has to wait for the device."""

    def __init__(self, device, width=10, budget=20):
        self.proj = torch.randn(width, width, device=device) * 0.3
        self.left = torch.full((1,), budget, dtype=torch.int32, device=device)
        self.done = torch.zeros(1, dtype=torch.int32, pin_memory=device.type == "cuda")

    def __call__(self, x):
        finished = int(self.done)
        self.left.sub_(1)
        self.done.copy_((self.left <= 0).to(torch.int32), non_blocking=True)
        if finished:
            return x.clamp(-0.1, 0.1)
        return x + torch.relu(x @ self.proj)


def build_lagged_stop(device):
    return LaggedStop(device), (torch.randn(4, 10, device=device),)


# --- paged key-value writer -----------------------------------------------------------------------------------------
class PagedWriter(nn.Module):
    """Writes keys to the head page of a free list; the slot in the page is counted on the device."""

    def __init__(self, pages=4, slots=32, width=6):
        super().__init__()
        self.register_buffer("pool", torch.zeros(pages, slots, width))
        self.register_buffer("slot", torch.zeros(1, dtype=torch.long))
        self.register_buffer("written", torch.zeros((), dtype=torch.float32))
        self.free = collections.deque(range(pages))
        self.ledger = []

    @torch.no_grad()
    def forward(self, key):
        page = self.pool[self.free[0]]
        page.index_copy_(0, self.slot, key)
        self.slot.add_(1).remainder_(page.shape[0])
        self.written.add_(1)
        self.ledger.append(len(self.ledger))
        if len(self.ledger) == page.shape[0]:
            self.ledger.clear()
            self.free.rotate(-1)
        weights = torch.softmax(self.pool.sum((1, 2)) * 0.1, dim=0)
        return torch.einsum("p,psw->w", weights, self.pool), self.pool.abs().sum((1, 2))


def build_paged_writer(device):
    return PagedWriter().to(device), (torch.rand(1, 6, device=device) + 0.5,)


# --- beam expansion -------------------------------------------------------------------------------------------------
class BeamSpread(nn.Module):
    """Gives every sequence as many beams as it asked for and pools them back to one row each."""

    def __init__(self, width=8):
        super().__init__()
        self.mix = nn.Linear(width, width)

    def forward(self, hidden, beams):
        rows = torch.arange(hidden.shape[0], device=hidden.device)
        owner = torch.repeat_interleave(rows, beams)
        spread = torch.tanh(self.mix(hidden.index_select(0, owner)))
        pooled = torch.zeros_like(hidden)
        return pooled.index_add(0, owner, spread)


def build_beam_spread(device):
    model = BeamSpread().to(device).requires_grad_(False)
    hidden = torch.randn(5, 8, device=device)
    beams = torch.arange(5, device=device).remainder(3) + 1
    return model, (hidden, beams)


# --- bias computed beside the logits --------------------------------------------------------------------------------
class OverlappedLogits:
    """The grammar bias is computed on its own stream while the main stream makes the logits."""

    def __init__(self, device, width=16, vocab=24):
        self.accel = torch.get_device_module(device)
        self.side = self.accel.Stream(device)
        self.ready = self.accel.Event()
        self.w_logits = torch.randn(width, vocab, device=device) * 0.2
        self.w_bias = torch.randn(width, vocab, device=device) * 0.2

    def __call__(self, x):
        main = self.accel.current_stream(x.device)
        self.side.wait_stream(main)
        with self.accel.stream(self.side):
            self.ready.record(self.side)
            bias = torch.tanh(x @ self.w_bias)
        logits = x @ self.w_logits
        main.wait_event(self.ready)
        out = torch.log_softmax(logits + bias, dim=-1)
        main.wait_stream(self.side)
        return out


def build_overlapped_logits(device):
    return OverlappedLogits(device), (torch.randn(4, 16, device=device),)


# --- key-value ring with its position on the device -----------------------------------------------------------------
class KvRing(nn.Module):
    """Attention over a ring; latencies go to a log that only people read."""

    def __init__(self, slots=16, width=8):
        super().__init__()
        self.register_buffer("keys", torch.zeros(slots, width))
        self.register_buffer("pos", torch.zeros(1, dtype=torch.long))
        self.register_buffer("filled", torch.zeros(slots, dtype=torch.bool))
        self.register_buffer("yes", torch.ones(1, dtype=torch.bool))
        self.latency = collections.deque(maxlen=32)
        self.requests = 0

    @torch.no_grad()
    def forward(self, key, query):
        begin = time.perf_counter()
        self.keys.index_copy_(0, self.pos, key)
        self.filled.index_copy_(0, self.pos, self.yes)
        self.pos.add_(1).remainder_(self.keys.shape[0])
        scores = (query @ self.keys.t()).masked_fill(~self.filled, float("-inf"))
        out = torch.softmax(scores, dim=-1) @ self.keys
        self.requests += 1
        self.latency.append((self.requests, time.perf_counter() - begin))
        return out


def build_kv_ring(device):
    return KvRing().to(device), (torch.randn(1, 8, device=device), torch.randn(3, 8, device=device))


# --- nucleus sampling with exponential noise ------------------------------------------------------------------------
class NucleusSampler:
    """top-p without a loop and without a host read; a repetition penalty lives on the device."""

    def __init__(self, device, batch=4, vocab=24, top_p=0.9):
        self.top_p = top_p
        self.counts = torch.zeros(batch, vocab, device=device)
        self.one = torch.ones(batch, 1, device=device)
        self.issued = 0

    def __call__(self, logits):
        probs = torch.softmax(logits - 0.3 * self.counts, dim=-1)
        ranked, order = probs.sort(dim=-1, descending=True)
        keep = ranked.cumsum(-1) - ranked < self.top_p
        ranked = torch.where(keep, ranked, torch.zeros_like(ranked))
        noise = torch.empty_like(ranked).exponential_(1.0)
        token = order.gather(1, (ranked / noise).argmax(-1, keepdim=True))
        self.counts.mul_(0.9).scatter_add_(1, token, self.one)
        self.issued += token.shape[0]
        return token, probs.gather(1, token)


def build_nucleus_sampler(device):
    return NucleusSampler(device), (torch.randn(4, 24, device=device),)


# --- rotary table made beforehand -----------------------------------------------------------------------------------
@dataclasses.dataclass(frozen=True)
class RopeConfig:
    heads: int = 2
    dim: int = 8
    base: float = 10_000.0
    lengths: tuple = (4, 8)


@functools.lru_cache(maxsize=None)
def attention_scale(dim):
    return 1.0 / math.sqrt(dim)


class RopeAttention(nn.Module):
    """Looks its cosine table up in a dictionary; every length it serves is already there."""

    def __init__(self, cfg, device):
        super().__init__()
        self.cfg, self.tables, self.hits = cfg, {}, collections.Counter()
        freq = cfg.base ** (-torch.arange(0, cfg.dim, 2, device=device).float() / cfg.dim)
        for n in cfg.lengths:
            angle = torch.arange(n, device=device).float()[:, None] * freq
            self.tables[n] = (angle.cos(), angle.sin())

    def rotate(self, x, cos, sin):
        even, odd = x[..., ::2], x[..., 1::2]
        return torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1).flatten(-2)

    def forward(self, q, k):
        n = q.shape[-2]
        if n not in self.tables:
            raise KeyError(f"no table of length {n}")
        self.hits[n] += 1
        q, k = (self.rotate(t, *self.tables[n]) for t in (q, k))
        return F.softmax(q @ k.transpose(-1, -2) * attention_scale(self.cfg.dim), dim=-1)


def build_rope_table(device):
    cfg = RopeConfig()
    q = torch.randn(cfg.heads, 8, cfg.dim, device=device)
    return RopeAttention(cfg, device), (q, torch.randn_like(q))


# --- two experts on two streams -------------------------------------------------------------------------------------
class ForkedExperts:
    """Each expert runs on a stream of its own; the main stream waits for both before it reads."""

    def __init__(self, device, width=12):
        self.accel = torch.get_device_module(device)
        self.lanes = [self.accel.Stream(device) for _ in range(2)]
        self.experts = [torch.randn(width, width, device=device) * 0.3 for _ in range(2)]
        self.gate = torch.randn(width, 2, device=device) * 0.3
        self.batches = 0

    def __call__(self, x):
        main = self.accel.current_stream(x.device)
        results = []
        for lane, weight in zip(self.lanes, self.experts):
            lane.wait_stream(main)
            with self.accel.stream(lane):
                results.append(F.gelu(x @ weight))
        share = torch.softmax(x @ self.gate, dim=-1)
        for lane in self.lanes:
            main.wait_stream(lane)
        self.batches += 1
        return share[:, :1] * results[0] + share[:, 1:] * results[1]


def build_forked_experts(device):
    return ForkedExperts(device), (torch.randn(5, 12, device=device),)
