"""Activations quantised per call, weights once."""
import torch
import torch.nn as nn


class QuantLinear(nn.Module):
    def __init__(self, linear: nn.Linear, outlier: float):
        super().__init__()
        weight = linear.weight.detach()
        self.register_buffer("w_scale", weight.abs().amax(dim=1, keepdim=True) / 127)
        self.register_buffer("w_int", torch.round(weight / self.w_scale))
        self.register_buffer("bias", linear.bias.detach())
        self.outlier = outlier

    def forward(self, x):
        peak = x.abs().amax(dim=0)
        columns = torch.nonzero(peak > self.outlier).squeeze(1)
        rest = x.index_fill(1, columns, 0.0)
        scale = rest.abs().max().item() / 127 + 1e-8
        q = torch.clamp(torch.round(rest / scale), -127, 127)
        y = (q @ self.w_int.t()) * scale * self.w_scale.t()
        full = self.w_int[:, columns] * self.w_scale
        return y + x[:, columns] @ full.t() + self.bias


class Calibrated(nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        self.up = QuantLinear(nn.Linear(dim, 2 * dim), outlier=2.0)
        self.down = QuantLinear(nn.Linear(2 * dim, dim), outlier=1.5)
        self.smooth = [1.0, 0.5] * (dim // 2)

    def forward(self, x):
        smooth = torch.tensor(self.smooth, device=x.device)
        return x + self.down(torch.relu(self.up(x * smooth)))


def build(device):
    torch.manual_seed(12)
    return Calibrated(16).eval().to(device), (torch.randn(4, 16, device=device),)
