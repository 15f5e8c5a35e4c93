"""Decode-time pieces of a small text server."""
import functools
import math
from contextlib import nullcontext

import torch
import graphsafe


def lane(device):
    return torch.cuda.Stream(device) if device.type == "cuda" else None


def on(stream):
    return torch.cuda.stream(stream) if stream is not None else nullcontext()


class LogprobLane:
    """Report log-probabilities on their own stream while the draft head runs."""

    def __init__(self, device, keep, hidden=256, vocab=512, rows=32):
        self.head = torch.randn(hidden, vocab, device=device) / 8
        self.draft_head = torch.randn(hidden, vocab, device=device) / 8
        self.mix = torch.randn(vocab, vocab, device=device) / math.sqrt(vocab)
        self.prior = torch.randn(rows, vocab, device=device)
        self.top = torch.zeros(rows, 8, device=device)
        self.side = lane(device)
        self.keep = keep

    def __call__(self, hidden):
        logits = hidden @ self.head
        if self.side is not None:
            self.side.wait_stream(torch.cuda.current_stream())
        with on(self.side):
            prior = self.prior
            for _ in range(8):
                prior = torch.tanh(prior @ self.mix)
            logp = torch.log_softmax(logits + prior, dim=-1)
            self.top.copy_(logp.topk(8, dim=-1).values)
        if self.keep and self.side is not None:
            logits.record_stream(self.side)
        del logits
        draft = hidden @ self.draft_head
        best = draft.max(dim=-1).values
        if self.side is not None:
            torch.cuda.current_stream().wait_stream(self.side)
        return best, self.top.clone()


def build_logprob_lane(device):
    return LogprobLane(device, keep=False), (torch.randn(32, 256, device=device),)


def build_logprob_lane_kept(device):
    return LogprobLane(device, keep=True), (torch.randn(32, 256, device=device),)


class SpeculativeWindow:
    def __init__(self, device, width=8, dim=32):
        self.cache = torch.randn(width + 1, dim, device=device)
        self.accepted = torch.zeros(1, dtype=torch.int64, pin_memory=device.type == "cuda")

    def __call__(self, target, draft, state):
        n = int(self.accepted[0])
        context = self.cache[: n + 1].mean(dim=0)
        run = (target > 0.6 * draft).to(torch.int64).cumprod(dim=0).sum().view(1)
        self.accepted.copy_(run, non_blocking=True)
        return torch.tanh(state + context)


def build_speculative_window(device):
    args = (torch.rand(8, device=device), torch.rand(8, device=device), torch.randn(4, 32, device=device))
    return SpeculativeWindow(device), args


def mask_listed(listed, scores, ids):
    hit = torch.isin(ids, listed)
    return scores.masked_fill(hit, 0.0).sum(dim=-1), hit.sum(dim=-1)


def build_banned_tokens(device):
    banned = torch.arange(0, 400, 10, device=device)
    return functools.partial(mask_listed, banned), (torch.randn(4, 16, device=device), torch.randint(0, 400, (4, 16), device=device))


def build_stop_tokens(device):
    stops = torch.tensor([0, 3, 7, 50], device=device)
    return functools.partial(mask_listed, stops), (torch.randn(4, 16, device=device), torch.randint(0, 60, (4, 16), device=device))


SERVER = {"budget": 64, "batch": 1}


@functools.lru_cache(maxsize=None)
def slot_slopes(heads, device):
    per_request = SERVER["budget"] // SERVER["batch"]
    return torch.arange(1, heads + 1, device=device) * (4.0 / per_request)


def build_decode_slopes(device, batch=4):
    SERVER["batch"] = batch
    keys = torch.randn(batch, 8, 12, device=device)

    def step(query):
        ages = torch.arange(12, device=device)
        scores = (query.unsqueeze(-1) * keys) - slot_slopes(8, device).view(1, 8, 1) * ages
        return torch.softmax(scores, dim=-1)

    return step, (torch.randn(batch, 8, device=device),)


PLANS = {}


def decode_plan(batch, heads, device):
    key = (batch, heads, str(device))
    if key not in PLANS:
        PLANS[key] = torch.arange(batch * heads, device=device) // heads
    return PLANS[key]


def build_decode_plan(device, batch=4):
    def step(partial):
        owner = decode_plan(batch, 4, device)
        out = torch.zeros(batch, 16, device=device)
        return out.index_add_(0, owner, partial) / batch

    return step, (torch.randn(batch * 4, 16, device=device),)


class PrefixAttention:
    def __init__(self, device, dim=32):
        self.k = torch.randn(dim, dim, device=device) / 4
        self.v = torch.randn(dim, dim, device=device) / 4
        self.encode = functools.lru_cache(maxsize=8)(self._encode)

    def _encode(self, prefix):
        return prefix @ self.k, prefix @ self.v

    def __call__(self, prefix, query):
        k, v = self.encode(prefix)
        return torch.softmax(query @ k.t() / 4, dim=-1) @ v


def build_prefix_attention(device):
    return PrefixAttention(device), (torch.randn(10, 32, device=device), torch.randn(3, 32, device=device))


class AppendingCache:
    def __init__(self, device, room=512, dim=16):
        self.k = torch.zeros(2, room, dim, device=device)
        self.used = 0

    def __call__(self, key, query):
        self.k[:, self.used] = key
        self.used += 1
        live = self.k[:, : self.used]
        weights = torch.softmax((live * query.unsqueeze(1)).sum(dim=-1), dim=-1)
        return (weights.unsqueeze(-1) * live).sum(dim=1)


def build_appending_cache(device):
    return AppendingCache(device), (torch.randn(2, 16, device=device), torch.randn(2, 16, device=device))


def build_paged_lookup(device):
    pool = torch.randn(64, 16, device=device)
    table = torch.zeros(8, dtype=torch.int64, device=device)
    pages = torch.arange(8)
    if device.type == "cuda":
        pages = pages.pin_memory()

    def step(pages, query):
        table.copy_(pages, non_blocking=True)
        return torch.softmax(query @ pool[table].t(), dim=-1)

    def refresh(args, kwargs, k):
        g = torch.Generator().manual_seed(k)
        args[0].copy_(torch.randint(0, 64, (8,), generator=g))
        args[1].copy_(torch.randn(3, 16, generator=g))

    return graphsafe.Step(step, (pages, torch.randn(3, 16, device=device)), refresh=refresh)


class CausalBlock:
    def __init__(self, device):
        self.device = device
        self.masks = {}

    def mask(self, length):
        if length not in self.masks:
            self.masks[length] = torch.ones(length, length, dtype=torch.bool, device=self.device).triu(1)
        return self.masks[length]

    def __call__(self, x):
        scores = (x @ x.transpose(-1, -2)).masked_fill(self.mask(x.shape[-2]), float("-inf"))
        return torch.softmax(scores, dim=-1) @ x


def build_causal_block(device):
    return CausalBlock(device), (torch.randn(2, 12, 16, device=device) / 2,)
