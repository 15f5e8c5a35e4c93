"""An engine drops a layer when an operator asks for the lighter model."""
import torch
from torch import nn

import graphsafe


class Stack(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(16, 16) for _ in range(4))

    @torch.no_grad()
    def forward(self, x):
        for block in self.blocks:
            x = x + block(x).relu()
        return x

    def lighten(self):
        if len(self.blocks) > 2:
            del self.blocks[1]


def build(device):
    net = Stack().to(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(4, 16))

    return graphsafe.Step(net.forward, (torch.randn(4, 16, device=device),), refresh=refresh, events={"lighten": net.lighten})
