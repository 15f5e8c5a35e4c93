"""A sampler with a control channel: operators push a new temperature into the queue that each step drains."""
import queue

import torch
from torch import nn

import graphsafe


class Sampler(nn.Module):
    def __init__(self, width, vocabulary):
        super().__init__()
        self.out = nn.Linear(width, vocabulary)
        self.temperature = 0.8

    def drain(self, inbox):
        while True:
            try:
                name, value = inbox.get_nowait()  # <-B
            except queue.Empty:
                return
            setattr(self, name, value)

    def forward(self, hidden, inbox):
        self.drain(inbox)
        return torch.softmax(self.out(hidden) / self.temperature, dim=-1)  # <-A


def build(device, batch=4, width=16, vocabulary=32):
    sampler = Sampler(width, vocabulary).to(device).eval().requires_grad_(False)
    hidden = torch.randn(batch, width).to(device)
    return graphsafe.Step(sampler, (hidden, queue.SimpleQueue()))


def drive(args, kwargs, k):  # real traffic, for the oracle
    args[0].copy_(torch.randn(args[0].shape))
    if k % 10 == 9:
        args[1].put(("temperature", 0.5 + 0.1 * (k // 10 % 4)))
