"""W8A8 linear layers with dynamic scales per token, kept on the device; SmoothQuant's smoothing."""
import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe


class W8A8Linear(nn.Module):
    def __init__(self, lin):
        super().__init__()
        w = lin.weight.detach()
        scale = w.abs().amax(1, keepdim=True).clamp_min(1e-8) / 127
        self.register_buffer("weight", torch.round(w / scale).clamp(-127, 127).to(torch.int8))
        self.register_buffer("wscale", scale.t().contiguous())
        self.register_buffer("bias", lin.bias.detach().clone())
        self.register_buffer("smooth", torch.linspace(0.5, 1.5, w.shape[1], device=w.device))

    def forward(self, x):
        x = x / self.smooth
        xs = x.abs().amax(-1, keepdim=True).clamp_min(1e-5) / 127
        q = torch.round(x / xs).clamp_(-128, 127)
        acc = q @ self.weight.t().to(q.dtype)
        return acc * xs * self.wscale + self.bias


class FeedForward(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.up, self.down = nn.Linear(dim, hidden), nn.Linear(hidden, dim)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


def quantize_model(model):
    for name, child in list(model.named_children()):
        if isinstance(child, nn.Linear):
            setattr(model, name, W8A8Linear(child))
        else:
            quantize_model(child)
    return model


def build(device, batch=4):
    torch.manual_seed(2)
    model = nn.Sequential(FeedForward(16, 32), FeedForward(16, 32)).to(device).eval().requires_grad_(False)
    return quantize_model(model), (torch.randn(batch, 16, device=device),)
