"""Instrumented transformer: returns some 70 tensors (each layer's norms, attention entropy, histograms, gradients) in dataclasses."""
from dataclasses import dataclass, field

import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe


@dataclass
class LayerReport:
    entropy: torch.Tensor
    norms: dict = field(default_factory=dict)
    histogram: torch.Tensor = None
    top: tuple = ()


class Layer(nn.Module):
    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.one, self.two = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 64), nn.GELU(), nn.Linear(64, width))

    def forward(self, x):
        b, t, w = x.shape
        q, k, v = self.qkv(self.one(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mask = torch.ones(t, t, dtype=torch.bool, device=x.device).tril()
        weights = (q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5).masked_fill(~mask, float("-inf")).softmax(-1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(b, t, w))
        y = x + self.mlp(self.two(x))
        entropy = -(weights * (weights + 1e-9).log()).sum(-1).mean((0, 2))
        report = LayerReport(entropy, {"x": x.norm(dim=-1), "y": y.norm(dim=-1), "q": q.norm(), "k": k.norm()})
        report.histogram = torch.histc(y.detach().float(), 16, -4, 4)
        report.top = tuple(y.detach().abs().flatten(0, 1).topk(3, 0))
        return y, report


def build(device):
    layers = nn.ModuleList(Layer() for _ in range(5)).to(device)
    parameters = list(layers.parameters())
    x = torch.randn(2, 9, 32, device=device)

    def step(x):
        reports, y = [], x
        for layer in layers:
            y, report = layer(y)
            reports.append(report)
        gradients = torch.autograd.grad(F.smooth_l1_loss(y, x.roll(-1, 1)), parameters)
        for r in reports:
            r.entropy, r.norms = r.entropy.detach(), {n: v.detach() for n, v in r.norms.items()}
        return reports, [g.norm() for g in gradients], y.detach()

    return graphsafe.Step(step, (x,), {}, refresh=lambda args, kwargs, k: args[0].copy_(torch.randn(2, 9, 32)))
