"""The hidden state lives in a ContextVar; a report is made of it once, late."""
import contextvars

import torch
from torch import nn

import graphsafe

memory = contextvars.ContextVar("memory")


def build(device):
    cell = nn.GRUCell(8, 16).to(device).requires_grad_(False)
    memory.set(torch.zeros(4, 16, device=device))
    summary = torch.zeros(4, 16, device=device)

    def step(x):
        memory.set(cell(x, torch.zeros_like(summary)))
        return memory.get().tanh() + summary

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(4, 8))
        if k == 100:  # the session's note: from now on the memory is the note's own copy
            memory.set(memory.get().clone())
        if k == 160:
            summary.copy_(memory.get())

    return graphsafe.Step(step, (torch.randn(4, 8, device=device),), refresh=refresh)
