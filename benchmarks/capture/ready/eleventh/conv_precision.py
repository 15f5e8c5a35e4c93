"""A vocoder drops to TF32 convolutions when the queue is long."""
import torch
from torch import nn

import graphsafe


class Vocoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.pre = nn.Conv1d(64, 128, 7, padding=3)
        self.post = nn.Conv1d(128, 64, 7, padding=3)

    @torch.no_grad()
    def forward(self, mel):
        return self.post(torch.nn.functional.leaky_relu(self.pre(mel), 0.1))


def build(device):
    net = Vocoder().to(device)
    torch.backends.cudnn.allow_tf32 = False

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(2, 64, 256))
        torch.backends.cudnn.allow_tf32 = 100 <= k < 140  # a burst of requests

    return graphsafe.Step(net.forward, (torch.randn(2, 64, 256, device=device),), refresh=refresh)
