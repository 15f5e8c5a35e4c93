"""Domain-adversarial training: the reversal strength is a device tensor that the schedule fills."""
import math

import torch
from torch import nn

import graphsafe


class Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, strength):
        ctx.save_for_backward(strength)
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        (strength,) = ctx.saved_tensors
        return grad.neg() * strength, None


def build(device):
    body, critic = nn.Linear(8, 8).to(device), nn.Linear(8, 2).to(device)
    strength = torch.zeros((), device=device)

    def grads(x, domain):
        body.zero_grad(set_to_none=False)
        loss = nn.functional.cross_entropy(critic(Reverse.apply(body(x).tanh(), strength)), domain)
        loss.backward()
        return loss.detach(), body.weight.grad.clone()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(32, 8))
        strength.fill_(2 / (1 + math.exp(-10 * k / 200)) - 1)

    x = torch.randn(32, 8, device=device)
    return graphsafe.Step(grads, (x, torch.randint(2, (32,), device=device)), refresh=refresh)
