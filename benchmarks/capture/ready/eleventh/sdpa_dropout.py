"""Attention with dropout in training mode, drawing from the default generator."""
import torch
from torch import nn

import graphsafe


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(32, 96)
        self.out = nn.Linear(32, 32)

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (4, 8)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        y = nn.functional.scaled_dot_product_attention(q, k, v, dropout_p=0.2)
        return nn.functional.dropout(self.out(y.transpose(1, 2).flatten(2)), 0.1)


def build(device):
    net = Block().to(device)

    def grads(x):
        net.zero_grad(set_to_none=False)
        loss = net(x).square().mean()
        loss.backward()
        return loss.detach(), net.out.weight.grad.clone()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(2, 16, 32))

    return graphsafe.Step(grads, (torch.randn(2, 16, 32, device=device),), refresh=refresh)
