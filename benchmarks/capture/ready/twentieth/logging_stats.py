"""Decode step with host-side statistics: call counter, throughput meter, debug log, profiler range, shape asserts."""
import logging
import os
import time

import torch
import torch.nn as nn
from torch.profiler import record_function

import graphsafe

logger = logging.getLogger(__name__)
DEBUG = os.environ.get("ENGINE_DEBUG", "0") == "1"


class Meter:
    def __init__(self):
        self.calls, self.tokens, self.started = 0, 0, time.perf_counter()

    def tick(self, n):
        self.calls += 1
        self.tokens += n
        if self.calls % 100 == 0:
            rate = self.tokens / (time.perf_counter() - self.started)
            logger.info("step %d: %.0f tokens/s", self.calls, rate)


class Runner:
    def __init__(self, device, vocab=60, d=24):
        self.emb = nn.Embedding(vocab, d, device=device).requires_grad_(False)
        self.ffn = nn.Sequential(nn.Linear(d, 2 * d), nn.SiLU(), nn.Linear(2 * d, d)).to(device).requires_grad_(False)
        self.norm = nn.RMSNorm(d, device=device)
        self.meter = Meter()
        self.penalty = torch.zeros(vocab, device=device)

    @torch.no_grad()
    def execute(self, ids):
        assert ids.dim() == 1 and ids.dtype == torch.long, "expected a flat batch of ids"
        with record_function("forward"):
            h = self.emb(ids)
            h = h + self.ffn(self.norm(h))
        with record_function("logits"):
            logits = h @ self.emb.weight.T - self.penalty
        if DEBUG:
            print("max logit", logits.max().item())
        torch._assert_async(logits.isfinite().all())
        token = logits.argmax(-1)
        self.penalty.mul_(0.9).index_add_(0, token, torch.ones_like(token, dtype=logits.dtype), alpha=0.1)
        self.meter.tick(ids.shape[0])
        logger.debug("ran a batch of %d", ids.shape[0])
        return token, logits


def build(device, batch=5):
    r = Runner(device)
    ids = torch.randint(0, 60, (batch,), device=device)
    return graphsafe.Step(r.execute, (ids,), refresh=lambda a, k, i: a[0].copy_(torch.randint(0, 60, (batch,))))
