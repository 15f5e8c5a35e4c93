"""A streaming recogniser keeps the state of a session; one without a chunk for half a minute starts anew."""
import time

import torch
from torch import nn

import graphsafe


class Session:
    IDLE = 30.0

    def __init__(self, width, device):
        self.state = torch.zeros(1, width, device=device)
        self.touched = time.monotonic()

    def touch(self):
        self.touched = time.monotonic()

    def reap(self):
        if time.monotonic() - self.touched > self.IDLE:
            self.state.zero_()


class Recogniser(nn.Module):
    def __init__(self, session, width, device):
        super().__init__()
        self.session = session
        self.cell = nn.GRUCell(width, width).to(device)
        self.head = nn.Linear(width, 30).to(device)

    def forward(self, chunk):
        state = self.cell(chunk, self.session.state)
        self.session.state.copy_(state)
        return self.head(state)


def build(device, width=24):
    session = Session(width, device)
    model = Recogniser(session, width, device).eval().requires_grad_(False)
    chunk = torch.randn(1, width).to(device)

    def refresh(args, kwargs, k):
        session.reap()
        session.touch()  # a chunk has come
        args[0].copy_(torch.randn(1, width))

    return graphsafe.Step(model, (chunk,), refresh=refresh, reset=session.state.zero_)
