"""A node of a cluster: the control plane writes a small block into a mapped file, which the loop brings to the device."""
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
        self.knobs = torch.tensor([1.0, 0.1], device=device)
        self.seen = b""

    def forward(self, x, control):
        self.seen = bytes(control[:])  # for the log
        return torch.relu(self.linear(x) * self.knobs[0] - self.knobs[1])


def open_control(gain, floor):
    with tempfile.TemporaryFile() as file:
        file.write(struct.pack(LAYOUT, gain, floor))
        file.flush()
        return mmap.mmap(file.fileno(), struct.calcsize(LAYOUT))


def build(device, batch=4, width=16):
    model = Node(width, device).eval().requires_grad_(False)
    x = torch.randn(batch, width).to(device)
    control = open_control(1.0, 0.1)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(batch, width))
        struct.pack_into(LAYOUT, args[1], 0, 1.0 + 0.5 * (k // 5 % 3), 0.1)
        model.knobs.copy_(torch.tensor(struct.unpack_from(LAYOUT, args[1])))

    return graphsafe.Step(model, (x, control), refresh=refresh)
