"""Multi-LoRA serving: stacked adapters, the index of each row's adapter in a device tensor (punica style)."""
import torch
import torch.nn as nn

import graphsafe


class StackedLora(nn.Module):
    def __init__(self, d_in, d_out, slots=4, rank=4):
        super().__init__()
        self.base = nn.Linear(d_in, d_out)
        self.register_buffer("A", torch.randn(slots + 1, d_in, rank) * 0.1)
        self.register_buffer("B", torch.randn(slots + 1, rank, d_out) * 0.1)
        self.register_buffer("scale", torch.ones(slots + 1))
        self.A[-1].zero_()

    def forward(self, x, idx):
        low = torch.bmm(x[:, None], self.A.index_select(0, idx))
        delta = torch.bmm(low, self.B.index_select(0, idx)).squeeze(1)
        return self.base(x) + self.scale[idx][:, None] * delta

    def load(self, slot, a, b, scale):
        self.A[slot].copy_(a)
        self.B[slot].copy_(b)
        self.scale[slot].fill_(scale)


class Layer(nn.Module):
    def __init__(self, d=16):
        super().__init__()
        self.gate = StackedLora(d, 2 * d)
        self.out = StackedLora(2 * d, d)

    def forward(self, x, idx):
        return x + self.out(torch.nn.functional.gelu(self.gate(x, idx)), idx)


def build(device, batch=4):
    layer = Layer().to(device).eval().requires_grad_(False)
    x = torch.randn(batch, 16, device=device)
    idx = torch.zeros(batch, dtype=torch.long, device=device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(batch, 16))
        args[1].copy_(torch.randint(0, 5, (batch,)))
        if k % 4 == 3:  # a new adapter is loaded into a slot
            layer.gate.load(k % 4, torch.randn(16, 4), torch.randn(4, 32), 0.5 + 0.1 * (k % 7))

    return graphsafe.Step(layer, (x, idx), refresh=refresh)
