"""Batched LoRA (punica's BGMV in plain torch): each row names its adapter in a device tensor."""
import torch
import torch.nn as nn

import graphsafe


class BatchedLora(nn.Module):
    def __init__(self, din, dout, rank=4, slots=6):
        super().__init__()
        self.base = nn.Linear(din, dout)
        self.register_buffer("A", torch.zeros(slots, din, rank))
        self.register_buffer("B", torch.zeros(slots, rank, dout))
        self.register_buffer("scale", torch.zeros(slots))

    def load(self, slot, a, b, scale):
        self.A[slot].copy_(a)
        self.B[slot].copy_(b)
        self.scale[slot].copy_(torch.tensor(scale))

    def forward(self, x, ids):
        valid = (ids >= 0).to(x.dtype)
        safe = ids.clamp(min=0)
        low = torch.bmm(x.unsqueeze(1), self.A[safe])
        delta = torch.bmm(low, self.B[safe]).squeeze(1)
        return self.base(x) + delta * (self.scale[safe] * valid).unsqueeze(-1)


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = BatchedLora(16, 32), BatchedLora(32, 16)

    def forward(self, x, ids):
        return x + self.down(torch.relu(self.up(x, ids)), ids)


def build(device):
    torch.manual_seed(1)
    model = MLP().to(device).eval().requires_grad_(False)
    for layer in (model.up, model.down):
        for slot in range(6):
            layer.load(slot, torch.randn(layer.A.shape[1:]), torch.randn(layer.B.shape[1:]), 0.1 * (slot + 1))
    x = torch.randn(5, 16, device=device)
    ids = torch.tensor([0, 3, -1, 2, 5], device=device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(5, 16))
        args[1].copy_(torch.randint(-1, 6, (5,)))
        if k % 7 == 3:  # an adapter is replaced in its slot
            slot = k % 6
            model.up.load(slot, torch.randn(16, 4), torch.randn(4, 32), 0.2)

    return graphsafe.Step(model, (x, ids), refresh=refresh)
