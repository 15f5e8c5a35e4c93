import torch
from torch import nn

from .block import ParallelBlock


def build(device, depth=2):
    torch.manual_seed(6)
    net = nn.Sequential(*(ParallelBlock(32, 4, device) for _ in range(depth))).requires_grad_(False)
    return net, (torch.randn(2, 6, 32, device=device),)
