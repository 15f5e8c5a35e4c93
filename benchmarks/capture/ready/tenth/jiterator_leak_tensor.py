"""A leaky activation as an elementwise kernel of its own; the leak is a tensor that a curriculum fills now and then."""
import torch
from torch import nn

import graphsafe

SOURCE = "template <typename T> T soft_leak(T x, T gate, T leak) { T y = x * gate; return y > T(0) ? y : leak * y; }"


class Gated(nn.Module):
    def __init__(self, width, device):
        super().__init__()
        self.value = nn.Linear(width, width).to(device)
        self.gate = nn.Linear(width, width).to(device)
        self.activate = torch.cuda.jiterator._create_jit_fn(SOURCE)
        self.leak = torch.full((width,), 0.1, device=device)

    def forward(self, x):
        return self.activate(self.value(x), torch.sigmoid(self.gate(x)), self.leak)


def build(device, batch=4, width=24):
    model = Gated(width, device).eval().requires_grad_(False)
    x = torch.randn(batch, width).to(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(batch, width))
        if k % 19 == 18:
            model.leak.fill_(0.1 + 0.2 * (k // 19 % 3))

    return graphsafe.Step(model, (x,), refresh=refresh)
