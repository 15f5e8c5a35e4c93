"""LoRA slots with least-recently-used replacement: the step marks its slots as used, the scheduler loads into the oldest."""
from collections import OrderedDict

import torch
import torch.nn as nn

import graphsafe


class Slots:
    def __init__(self, n, d, r, device):
        self.a = torch.zeros(n, d, r, device=device)
        self.b = torch.zeros(n, r, d, device=device)
        self.order = OrderedDict((i, None) for i in range(n))

    def touch(self, slot):
        self.order.move_to_end(slot)

    def load(self, seed):
        slot = next(iter(self.order))
        g = torch.Generator().manual_seed(seed)
        self.a[slot].copy_(torch.randn(self.a.shape[1:], generator=g) * 0.3)
        self.b[slot].copy_(torch.randn(self.b.shape[1:], generator=g) * 0.3)
        self.order.move_to_end(slot)
        return slot


class Server:
    def __init__(self, device, n=3, d=16, r=4, batch=4):
        self.base = nn.Linear(d, d).to(device).requires_grad_(False)
        self.slots = Slots(n, d, r, device)
        for s in range(n):
            self.slots.load(s)
        self.active = (0,)
        self.idx = torch.zeros(batch, dtype=torch.long, device=device)
        self.x = torch.randn(batch, d, device=device)

    def step(self):
        for s in self.active:
            self.slots.touch(s)
        low = torch.bmm(self.x[:, None], self.slots.a[self.idx])
        return self.base(self.x) + torch.bmm(low, self.slots.b[self.idx]).squeeze(1)

    def schedule(self, k):
        self.x.copy_(torch.randn(self.x.shape))
        if k % 3 == 2:
            self.slots.load(100 + k)  # a new adapter, not used yet


def build(device):
    s = Server(device)
    return graphsafe.Step(s.step, refresh=lambda a, kw, k: s.schedule(k))
