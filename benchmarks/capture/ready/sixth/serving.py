"""Inference steps of a small model server."""
import collections
import concurrent.futures
import functools
import itertools
import types

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


class Sampler(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.head = nn.Linear(12, 40, device=device)

    @torch.no_grad()
    def forward(self, hidden, request):
        logits = self.head(hidden) / request.temperature
        return logits.log_softmax(-1)


def build_sampler(device):
    request = types.SimpleNamespace(temperature=torch.tensor(0.8), name="chat")
    return Sampler(device), (torch.randn(5, 12, device=device), request)


class PaddedEncoder(nn.Module):
    def __init__(self, device):
        super().__init__()
        layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True, device=device)
        self.encoder = nn.TransformerEncoder(layer, 2)

    @torch.inference_mode()
    def forward(self, tokens, lengths):
        steps = torch.arange(tokens.shape[1], device=tokens.device)
        padding = steps.unsqueeze(0) >= lengths.unsqueeze(1)
        encoded = self.encoder(tokens, src_key_padding_mask=padding)
        return encoded[:, 0].clone()


def build_padded_encoder(device):
    lengths = torch.tensor([10, 7, 7, 4], device=device)
    return PaddedEncoder(device).eval(), (torch.randn(4, 10, 16, device=device), lengths)


class DeferredStats:
    """Usage statistics of one batch are gathered while the next one is prepared."""

    def __init__(self, device):
        self.usage = torch.zeros(30, device=device)
        self.kept = torch.zeros(20, 30, device=device)
        self.side = torch.cuda.Stream(device) if device.type == "cuda" else None

    def __call__(self, logits):
        if self.side is not None:
            torch.cuda.current_stream(logits.device).wait_stream(self.side)
        answer = logits - 0.1 * self.usage
        self.kept.copy_(answer)
        if self.side is not None:
            self.side.wait_stream(torch.cuda.current_stream(logits.device))
        with torch.cuda.stream(self.side):
            self.usage.lerp_(self.kept.softmax(-1).sum(0), 0.1)
        return answer


def build_deferred_stats(device):
    return DeferredStats(device), (torch.randn(20, 30, device=device),)


class SplitDecoder:
    def __init__(self, device):
        self.keys = torch.randn(1024, 256, device=device) * 0.05
        self.buffer = torch.zeros(256, 1024, device=device)
        cuda = device.type == "cuda"
        self.streams = [torch.cuda.Stream(device) if cuda else None for _ in range(2)]

    def __call__(self, queries):
        first, second = self.streams
        if first is not None:
            first.wait_stream(torch.cuda.current_stream(queries.device))
            second.wait_stream(torch.cuda.current_stream(queries.device))
        with torch.cuda.stream(first):
            torch.mm(queries, self.keys.T, out=self.buffer)
        with torch.cuda.stream(second):
            self.buffer.clamp_(-1.0, 1.0)
        if first is not None:
            torch.cuda.current_stream(queries.device).wait_stream(first)
            torch.cuda.current_stream(queries.device).wait_stream(second)
        return self.buffer.softmax(-1).amax(-1)


def build_split_decoder(device):
    return SplitDecoder(device), (torch.randn(256, 256, device=device),)


class DraftVerifier:
    def __init__(self, device):
        self.embed = torch.randn(50, 8, device=device)
        self.context = torch.zeros(8, device=device)

    def __call__(self, draft, verified):
        agreed = (draft == verified).long().cumprod(0).sum()
        accepted = draft[: agreed + 1]
        self.context.mul_(0.5).add_(self.embed[accepted].mean(0))
        return self.context.clone()


def build_draft_verifier(device):
    return DraftVerifier(device), (torch.randint(0, 50, (6,), device=device), torch.randint(0, 50, (6,), device=device))


class BatchPlanner:
    """Moves traffic to the second expert as the rollout plan says."""

    def __init__(self, device):
        self.experts = torch.randn(2, 10, 10, device=device)
        self.worker = concurrent.futures.ThreadPoolExecutor(max_workers=1)
        self.served = itertools.count()

    def _plan(self, rows):
        return int(next(self.served) * rows >= 800)

    def __call__(self, batch):
        expert = self.worker.submit(self._plan, batch.shape[0]).result()
        return torch.tanh(batch @ self.experts[expert])


def build_batch_planner(device):
    return BatchPlanner(device), (torch.randn(8, 10, device=device),)


class RingCache(nn.Module):
    def __init__(self, device, room=24, width=8):
        super().__init__()
        self.register_buffer("keys", torch.zeros(room, width, device=device))
        self.register_buffer("filled", torch.zeros(room, dtype=torch.bool, device=device))
        self.register_buffer("at", torch.zeros(1, dtype=torch.long, device=device))
        self.project = nn.Linear(width, width, device=device)
        self.tokens = 0

    @torch.inference_mode()
    def forward(self, hidden):
        self.tokens += 1
        self.keys.index_copy_(0, self.at, self.project(hidden).unsqueeze(0))
        self.filled.index_fill_(0, self.at, True)
        self.at.add_(1)
        self.at.remainder_(self.keys.shape[0])
        scores = (self.keys @ hidden).masked_fill(~self.filled, float("-inf"))
        return scores.softmax(0) @ self.keys


def build_ring_cache(device):
    return RingCache(device), (torch.randn(8, device=device),)


class TwoTower:
    """Towers run side by side; the text tower also waits for the user features."""

    def __init__(self, device):
        self.weights = [torch.randn(64, 64, device=device) * 0.1 for _ in range(3)]
        self.results = [torch.zeros(32, 64, device=device) for _ in range(3)]
        cuda = device.type == "cuda"
        self.streams = [torch.cuda.Stream(device) if cuda else None for _ in range(2)]
        self.ready = [torch.cuda.Event() if cuda else None for _ in range(3)]

    def __call__(self, user, text):
        (left, right), (start, users, done) = self.streams, self.ready
        if start is not None:
            start.record()
            left.wait_event(start)
            right.wait_event(start)
        with torch.cuda.stream(left):
            torch.mm(user, self.weights[0], out=self.results[0])
            if users is not None:
                users.record(left)
            torch.mm(self.results[0], self.weights[1], out=self.results[1])
        with torch.cuda.stream(right):
            if users is not None:
                right.wait_event(users)
            torch.addmm(self.results[0], text, self.weights[2], out=self.results[2])
            if done is not None:
                done.record(right)
        if start is not None:
            torch.cuda.current_stream(user.device).wait_event(done)
            torch.cuda.current_stream(user.device).wait_stream(left)
        return torch.tanh(self.results[1]) + torch.tanh(self.results[2])


def build_two_tower(device):
    return TwoTower(device), (torch.randn(32, 64, device=device), torch.randn(32, 64, device=device))


def _cap(limit, logits, past):
    return logits.clamp(max=float(limit))


def _repetition(penalty, logits, past):
    hits = torch.zeros_like(logits).scatter_add_(1, past, torch.ones_like(past, dtype=logits.dtype))
    return torch.where(hits > 0, logits / penalty, logits)


def build_logit_pipeline(device):
    limits = np.array([3.0, 2.0])
    banned = torch.arange(40, device=device) % 13 == 5
    stages = [functools.partial(_repetition, 1.3)] + [functools.partial(_cap, limit) for limit in limits]
    served = collections.Counter()

    def step(logits, past):
        served.update(["step"])
        for stage in stages:
            logits = stage(logits, past)
        if served["step"] > 1000:
            served.clear()
        return logits.masked_fill(banned, -10.0).softmax(-1)

    return step, (torch.randn(4, 40, device=device), torch.randint(0, 40, (4, 10), device=device))


class PinnedIntake:
    def __init__(self, device):
        self.batch = torch.zeros(16, 6, device=device)
        self.scale = torch.rand(6, device=device)
        self.trend = torch.zeros(6, device=device)

    def __call__(self, arrivals):
        self.batch.copy_(arrivals, non_blocking=True)
        self.trend.lerp_(self.batch.mean(0), 0.2)
        return self.batch * self.scale - self.trend


def build_pinned_intake(device):
    arrivals = torch.randn(16, 6)
    return PinnedIntake(device), (arrivals.pin_memory() if device.type == "cuda" else arrivals,)
