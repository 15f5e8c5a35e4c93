"""The hidden state lives in a ContextVar and is written in place."""
import contextvars

import torch
from torch import nn

import graphsafe

memory = contextvars.ContextVar("memory")


def build(device):
    cell = nn.GRUCell(8, 16).to(device).requires_grad_(False)
    memory.set(torch.zeros(4, 16, device=device))

    def step(x):
        state = memory.get()
        state.copy_(cell(x, state))
        memory.set(state)
        return state.tanh()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(4, 8))
        if k % 25 == 24:
            memory.get().zero_()

    return graphsafe.Step(step, (torch.randn(4, 8, device=device),), refresh=refresh)
