"""Quantisation-aware training with the stock fake-quantise modules and moving-average observers."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.ao.quantization import FakeQuantize, MovingAverageMinMaxObserver

import graphsafe


def fake_quantise(low, high, dtype, scheme):
    return FakeQuantize(observer=MovingAverageMinMaxObserver, quant_min=low, quant_max=high, dtype=dtype, qscheme=scheme)


class QuantLinear(nn.Module):
    def __init__(self, n, m):
        super().__init__()
        self.linear = nn.Linear(n, m)
        self.activation = fake_quantise(0, 255, torch.quint8, torch.per_tensor_affine)
        self.weight = fake_quantise(-128, 127, torch.qint8, torch.per_tensor_symmetric)

    def forward(self, x):
        return F.linear(self.activation(x), self.weight(self.linear.weight), self.linear.bias)


def build(device):
    net = nn.Sequential(QuantLinear(16, 32), nn.ReLU(), QuantLinear(32, 4)).to(device).train()
    x, y = torch.zeros(24, 16, device=device), torch.zeros(24, dtype=torch.long, device=device)
    momentum = [torch.zeros_like(p) for p in net.parameters()]

    def step(x, y):
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        with torch.no_grad():
            for p, m in zip(net.parameters(), momentum):
                m.mul_(0.9).add_(p.grad)
                p.sub_(m, alpha=0.01)
                p.grad.zero_()
        return loss.detach()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(24, 16))
        args[1].copy_(torch.randint(4, (24,)))

    return graphsafe.Step(step, (x, y), {}, refresh=refresh)
