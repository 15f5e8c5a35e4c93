import torch
from torch import nn

from .config import NetConfig
from .registry import LAYERS
from . import layers as _layers  # noqa: F401


class Net(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.stack = nn.ModuleList(LAYERS.from_config(c, width=config.width) for c in config.layers)
        self.norm = nn.LayerNorm(config.width)

    @torch.no_grad()
    def forward(self, x):
        for layer in self.stack:
            x = layer(x)
        return self.norm(x)


def build(device):
    torch.manual_seed(5)
    net = Net(NetConfig.small()).to(device).eval()
    return net, (torch.randn(6, 18, device=device),)
