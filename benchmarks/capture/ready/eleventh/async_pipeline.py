"""A coroutine keeps the decoder state between sends."""
import torch
from torch import nn

import graphsafe


async def nothing():
    return None


class Pipe:
    def __init__(self, device):
        self.cell = nn.GRUCell(8, 8).to(device).requires_grad_(False)
        self.device = device
        self.inbox = None
        self.outbox = None
        self.task = self.run()

    async def run(self):
        state = torch.zeros(2, 8, device=self.device)
        while True:
            await Tick()
            state = self.cell(self.inbox, state)
            self.outbox = state * 2
            await nothing()

    def __call__(self, x):
        self.inbox = x
        if self.outbox is None:
            self.task.send(None)
        self.task.send(None)
        return self.outbox


class Tick:
    def __await__(self):
        yield


def build(device):
    pipe = Pipe(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(2, 8))

    return graphsafe.Step(pipe, (torch.randn(2, 8, device=device),), refresh=refresh)
