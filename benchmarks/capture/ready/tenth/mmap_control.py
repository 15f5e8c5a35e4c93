"""A node of a cluster: the control plane writes a small block into a mapped file, and the step reads its gain from there."""
import mmap
import struct
import tempfile

import torch
from torch import nn

import graphsafe

LAYOUT = "<dd"  # gain, floor


class Node(nn.Module):
    def __init__(self, width, device):
        super().__init__()
        self.linear = nn.Linear(width, width).to(device)

    def forward(self, x, control):
        gain, floor = struct.unpack_from(LAYOUT, control)
        return torch.relu(self.linear(x) * gain - floor)


def open_control(gain, floor):
    with tempfile.TemporaryFile() as file:
        file.write(struct.pack(LAYOUT, gain, floor))
        file.flush()
        return mmap.mmap(file.fileno(), struct.calcsize(LAYOUT))


def build(device, batch=4, width=16):
    model = Node(width, device).eval().requires_grad_(False)
    x = torch.randn(batch, width).to(device)
    return graphsafe.Step(model, (x, open_control(1.0, 0.1)))


def drive(args, kwargs, k):  # real traffic, for the oracle
    args[0].copy_(torch.randn(args[0].shape))
    struct.pack_into(LAYOUT, args[1], 0, 1.0 + 0.5 * (k // 5 % 3), 0.1)
