"""Paged decode: the runner hands out the next page of the KV cache between steps, when the last one is full."""
from collections import deque

import torch
from torch import nn

import graphsafe

PAGE, SLOTS, PAGES = 12, 4, 9


class PagedDecoder(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self.register_buffer("keys", torch.zeros(PAGES * PAGE, width))
        self.register_buffer("values", torch.zeros(PAGES * PAGE, width))
        self.register_buffer("table", torch.zeros(SLOTS, dtype=torch.int64))
        self.register_buffer("position", torch.zeros((), dtype=torch.int64))
        self.register_buffer("lane", torch.arange(PAGE))
        self.register_buffer("slots", torch.arange(SLOTS * PAGE))
        self.length = 0

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        where = self.position % (SLOTS * PAGE)
        rows = (self.table[:, None] * PAGE + self.lane).flatten()
        row = rows.gather(0, where.view(1))
        self.keys.index_copy_(0, row, k)
        self.values.index_copy_(0, row, v)
        scores = q @ self.keys[rows].t() / x.shape[1] ** 0.5
        scores = scores.masked_fill(self.slots > self.position, float("-inf"))
        self.position.add_(1)
        self.length += 1  # <-A
        return torch.softmax(scores, dim=-1) @ self.values[rows]


class Runner:
    def __init__(self, model):
        self.model, self.free = model, deque(range(PAGES))
        self.held = [None] * SLOTS
        self.extend()

    def extend(self):
        slot = self.model.length // PAGE % SLOTS
        if self.held[slot] is not None:
            self.free.append(self.held[slot])
        self.held[slot] = self.free.popleft()
        self.model.table[slot:slot + 1].fill_(self.held[slot])

    def prepare(self):
        if self.model.length % PAGE == 0:  # <-B
            self.extend()


def build(device, width=16):
    model = PagedDecoder(width).to(device).eval().requires_grad_(False)
    runner = Runner(model)
    x = torch.randn(1, width).to(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(1, width))
        runner.prepare()

    return graphsafe.Step(model, (x,), refresh=refresh)
