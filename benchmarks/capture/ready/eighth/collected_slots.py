"""A slot pool for recurrent state: a slot returns to the pool when its session, part of a cycle, is collected."""
import gc
import heapq

import torch
from torch import nn

import graphsafe


class Pool:
    def __init__(self, slots, width, device):
        self.memory = torch.randn(slots, width).to(device)
        self.free = list(range(slots))

    def acquire(self):
        return heapq.heappop(self.free)


class Session:
    def __init__(self, pool):
        self.pool, self.slot = pool, pool.acquire()
        self.owner = self  # a cycle, as callbacks make them

    def __del__(self):
        heapq.heappush(self.pool.free, self.slot)  # <-B


class Server(nn.Module):
    def __init__(self, pool, width):
        super().__init__()
        self.cell = nn.GRUCell(width, width)
        self.pool = pool
        self.session = Session(pool)

    def reconnect(self):
        self.session = Session(self.pool)
        gc.collect()

    def forward(self, x):
        state = self.pool.memory[self.session.slot]  # <-A
        new = self.cell(x, state.expand(x.shape[0], -1))
        return new + 0.1 * state


def build(device, batch=4, width=16):
    server = Server(Pool(6, width, device), width).to(device).eval().requires_grad_(False)
    x = torch.randn(batch, width).to(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(batch, width))
        if k % 6 == 5:
            server.reconnect()

    return graphsafe.Step(server, (x,), refresh=refresh)
