"""Eight-bit weights. A reload may bring signed or unsigned codes: the same bytes' buffer is then seen as another type."""
import torch
from torch import nn

import graphsafe


class Quantized(nn.Module):
    def __init__(self, features, outputs):
        super().__init__()
        self.register_buffer("codes", torch.randint(0, 256, (outputs, features), dtype=torch.uint8))
        self.register_buffer("scale", torch.rand(outputs) / 128)
        self.register_buffer("zero", torch.full((outputs, 1), 128.0))

    def reload(self, signed):
        self.codes = self.codes.view(torch.int8 if signed else torch.uint8)  # <-B
        self.zero.fill_(0.0 if signed else 128.0)

    def forward(self, x):
        weight = (self.codes.float() - self.zero) * self.scale[:, None]  # <-A
        return torch.nn.functional.linear(x, weight)


def build(device, batch=4, features=16, outputs=24):
    model = Quantized(features, outputs).to(device).eval().requires_grad_(False)
    x = torch.randn(batch, features).to(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(batch, features))
        model.reload(signed=k % 7 == 6)

    return graphsafe.Step(model, (x,), refresh=refresh)
