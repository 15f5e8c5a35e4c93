"""The steering hook always runs; a device gain says for which rows."""
import torch
from torch import nn

import graphsafe


class Steered:
    def __init__(self, device):
        self.blocks = nn.ModuleList(nn.Linear(16, 16) for _ in range(3)).to(device).eval()
        self.vector = torch.randn(16).to(device)
        self.gain = torch.zeros(4, 1, device=device)
        self.blocks[1].register_forward_hook(lambda m, a, out: out + self.gain * self.vector)

    @torch.inference_mode()
    def __call__(self, x):
        for block in self.blocks:
            x = torch.relu(block(x))
        return x


def build(device):
    engine = Steered(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(4, 16))
        engine.gain.copy_((torch.rand(4, 1) < 0.3).float())

    return graphsafe.Step(engine, (torch.randn(4, 16, device=device),), refresh=refresh)
