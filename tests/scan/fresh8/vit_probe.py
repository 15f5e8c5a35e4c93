"""Features of chosen blocks of a small vision transformer, gathered by hooks."""
from collections import OrderedDict

import torch
from torch import nn

MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.a = nn.LayerNorm(width)
        self.mix = nn.MultiheadAttention(width, heads, batch_first=True)
        self.b = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        y = self.a(x)
        x = x + self.mix(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.b(x))


class Encoder(nn.Module):
    def __init__(self, side=32, patch=4, width=96, heads=4, depth=4):
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.place = nn.Parameter(torch.randn(1, (side // patch) ** 2, width) * 0.02)
        self.blocks = nn.Sequential(OrderedDict((f"block{i}", Block(width, heads)) for i in range(depth)))

    def forward(self, x):
        return self.blocks(self.patches(x).flatten(2).transpose(1, 2) + self.place)


class Whitening:
    """Decorrelates pooled features."""

    def __init__(self, width, eps=1e-3):
        self.width = width
        self.eps = eps
        self.centre = None
        self.scale = None

    def __call__(self, rows):
        if self.centre is None:
            self.centre = rows.mean(0, keepdim=True)
            self.scale = (rows.var(0, keepdim=True) + self.eps).rsqrt()
        return (rows - self.centre) * self.scale


class Probe:
    def __init__(self, encoder, names):
        self.encoder = encoder
        self.taken = {}
        self.whiten = Whitening(encoder.place.shape[-1])
        lookup = dict(encoder.named_modules())
        for name in names:
            lookup[name].register_forward_hook(self._catch(name))

    def _catch(self, name):
        def hook(module, inputs, output):
            self.taken[name] = output.mean(1).detach().cpu()

        return hook

    def normalise(self, image):
        mean = image.new_tensor(MEAN).view(1, 3, 1, 1)
        std = image.new_tensor(STD).view(1, 3, 1, 1)
        return (image.float() / 255 - mean) / std

    def extract(self, image):
        tokens = self.encoder(self.normalise(image))
        return self.whiten(tokens.mean(1))


def build(device):
    torch.manual_seed(3)
    encoder = Encoder().to(device).eval()
    for p in encoder.parameters():
        p.requires_grad_(False)
    probe = Probe(encoder, ["blocks.block1", "blocks.block3"])
    images = torch.randint(0, 256, (8, 3, 32, 32), dtype=torch.uint8, device=device)
    return probe.extract, (images,)
