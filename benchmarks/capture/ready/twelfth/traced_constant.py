"""A traced block in which an editor changes a node's constant and compiles the code again."""

import operator

import torch
from torch import fx, nn

import graphsafe


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(12, 24)
        self.down = nn.Linear(24, 12)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(x))) * 0.5


def build(device):
    traced = fx.symbolic_trace(Block().to(device).eval().requires_grad_(False))

    def damp():
        for node in traced.graph.nodes:
            if node.op == "call_function" and node.target is operator.mul:
                node.args = (node.args[0], 0.25)
        traced.recompile()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(4, 12))
        if k == 140:
            damp()

    return graphsafe.Step(traced, (torch.randn(4, 12, device=device),), refresh=refresh)
