"""Prioritised replay: rows are drawn by multinomial with their priorities, which the step writes back."""

import torch

import graphsafe


def build(device):
    memory = torch.randn(64, 6, device=device)
    priority = torch.ones(64, device=device)
    value = torch.randn(6, device=device) * 0.1

    def learn(target):
        rows = torch.multinomial(priority, 8, replacement=False)
        error = memory[rows] @ value - target[rows]
        value.sub_(0.02 * (error[:, None] * memory[rows]).mean(0))
        priority.index_copy_(0, rows, error.abs() + 0.05)
        return rows, error

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(64))

    return graphsafe.Step(learn, (torch.randn(64, device=device),), refresh=refresh)
