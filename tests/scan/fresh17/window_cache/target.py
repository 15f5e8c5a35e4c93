import torch
from torch import nn

from .block import WindowAttention
from .store import RollingKV


class TinyDecoder(nn.Module):
    def __init__(self, device, rows=2, dim=32, heads=4, layers=2, window=8):
        super().__init__()
        stores = [RollingKV(rows, heads, window, dim // heads, device) for _ in range(layers)]
        self.layers = nn.ModuleList(WindowAttention(dim, heads, s) for s in stores)
        self.norm = nn.LayerNorm(dim)

    def forward(self, hidden):
        for layer in self.layers:
            hidden = hidden + layer(self.norm(hidden))
        return hidden


def build(device):
    torch.manual_seed(0)
    net = TinyDecoder(device).to(device).requires_grad_(False)
    return net, (torch.randn(2, 32, device=device),)
