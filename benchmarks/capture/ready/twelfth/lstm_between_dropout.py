"""A two-layer LSTM in training mode with dropout between its layers."""

import torch

import graphsafe


def build(device):
    lstm = torch.nn.LSTM(8, 16, num_layers=2, dropout=0.3, batch_first=True).to(device).train().requires_grad_(False)

    def step(x):
        out, (_h, c) = lstm(x)
        return out[:, -1], c

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(4, 6, 8))

    return graphsafe.Step(step, (torch.randn(4, 6, 8, device=device),), refresh=refresh)
