"""Zero-copy input: the loader points the input at the next of its device buffers."""
import torch
from torch import nn

import graphsafe


class Ring:
    def __init__(self, device, slots=3):
        self.buffers = [torch.randn(5, 20, device=device) for _ in range(slots)]
        self.turn = 0

    def publish(self, x):
        self.turn += 1
        buffer = self.buffers[(self.turn // 10) % len(self.buffers)]  # a buffer serves ten batches
        buffer.copy_(torch.randn(5, 20))
        x.set_(buffer)


def build(device):
    torch.manual_seed(22)
    net = nn.Sequential(nn.Linear(20, 20), nn.LayerNorm(20)).to(device).requires_grad_(False)
    ring = Ring(device)
    x = torch.empty(0, device=device).set_(ring.buffers[0])

    def step(x):
        return net(x)  # LINE: reads the buffer that x had at capture

    def refresh(args, kwargs, k):
        ring.publish(args[0])

    return graphsafe.Step(step, (x,), refresh=refresh)
