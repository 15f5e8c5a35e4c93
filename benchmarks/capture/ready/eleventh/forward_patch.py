"""A fault-tolerant server patches a layer's forward when an operator asks for the safe kernel."""
import types

import torch
from torch import nn

import graphsafe


def safe_forward(self, x):
    y = nn.functional.linear(x.float(), self.weight, self.bias)
    return torch.nan_to_num(y).clamp(-1, 1)


def build(device):
    head = nn.Linear(16, 16).to(device).requires_grad_(False)
    body = nn.Linear(16, 16).to(device).requires_grad_(False)

    def step(x):
        return head(torch.relu(body(x)))

    def safe():
        head.forward = types.MethodType(safe_forward, head)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(4, 16) * 8)

    return graphsafe.Step(step, (torch.randn(4, 16, device=device),), refresh=refresh, events={"safe kernel": safe})
