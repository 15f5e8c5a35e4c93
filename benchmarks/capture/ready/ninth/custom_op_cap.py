"""Logit soft-capping as a registered operator; the cap is a serving knob."""
import torch
from torch import nn

import graphsafe

LIMITS = {"cap": 2.0}


@torch.library.custom_op("softcap::soft_cap", mutates_args=())
def soft_cap(x: torch.Tensor) -> torch.Tensor:
    cap = LIMITS["cap"]
    return cap * torch.tanh(x / cap)  # <-A


@soft_cap.register_fake
def _(x):
    return torch.empty_like(x)


class Head(nn.Module):
    def __init__(self, width, vocabulary):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.out = nn.Linear(width, vocabulary)

    def forward(self, x):
        return torch.log_softmax(soft_cap(4 * self.out(self.norm(x))), dim=-1)


def build(device, batch=4, width=16, vocabulary=32):
    head = Head(width, vocabulary).to(device).eval().requires_grad_(False)
    x = torch.randn(batch, width).to(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(batch, width))
        LIMITS["cap"] = 3.0 if k % 11 == 10 else 2.0  # <-B

    return graphsafe.Step(head, (x,), refresh=refresh)
