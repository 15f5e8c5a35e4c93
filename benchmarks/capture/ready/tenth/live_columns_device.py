"""Attention over retrieved passages with a bias of the retriever: the device counts those that are there."""
import math

import torch
from torch import nn

import graphsafe


class PassageAttention(nn.Module):
    def __init__(self, passages, width, device):
        super().__init__()
        self.query = nn.Linear(width, width).to(device)
        self.missing = 0
        self.bias = torch.zeros(passages, device=device)

    def forward(self, x, memory, bias):
        self.bias.copy_(bias, non_blocking=True)
        self.missing = int(torch.isinf(bias).sum())  # for the log
        live = torch.isfinite(self.bias).sum()
        temperature = torch.log(live + 1.0)  # sharper if more passages compete
        scores = self.query(x) @ memory.t() * temperature + self.bias
        return torch.softmax(scores, dim=-1) @ memory


def build(device, batch=3, passages=10, width=16):
    model = PassageAttention(passages, width, device).eval().requires_grad_(False)
    x = torch.randn(batch, width).to(device)
    memory = torch.randn(passages, width).to(device)
    bias = torch.randn(passages)
    bias[7:] = -math.inf
    if device.type == "cuda":
        bias = bias.pin_memory()
    return graphsafe.Step(model, (x, memory, bias))


def drive(args, kwargs, k):  # real traffic, for the oracle: the retriever finds more or fewer
    args[0].copy_(torch.randn(args[0].shape))
    args[1].copy_(torch.randn(args[1].shape))
    args[2].copy_(torch.randn(args[2].shape))
    args[2][3 + k % 7 :] = -math.inf
