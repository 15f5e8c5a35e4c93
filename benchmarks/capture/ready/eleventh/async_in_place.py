"""A coroutine keeps the decoder state between sends, in one buffer."""
import torch
from torch import nn

import graphsafe


class Tick:
    def __await__(self):
        yield


class Pipe:
    def __init__(self, device):
        self.cell = nn.GRUCell(8, 8).to(device).requires_grad_(False)
        self.device, self.inbox, self.outbox = device, None, None
        self.task = self.run()
        self.task.send(None)

    async def run(self):
        state = torch.zeros(2, 8, device=self.device)
        while True:
            await Tick()
            state.copy_(self.cell(self.inbox, state))
            self.outbox = state * 2

    def __call__(self, x):
        self.inbox = x
        self.task.send(None)
        return self.outbox


def build(device):
    pipe = Pipe(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(2, 8))

    return graphsafe.Step(pipe, (torch.randn(2, 8, device=device),), refresh=refresh)
