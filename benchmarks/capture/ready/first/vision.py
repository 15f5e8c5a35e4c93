"""Image models as they are freshly made."""
import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x):
        h = self.n1(x)
        x = x + self.attn(h, h, h, need_weights=False)[0]
        return x + self.mlp(self.n2(x))


class TinyViT(nn.Module):
    def __init__(self, dim=32, classes=10):
        super().__init__()
        self.patch = nn.Conv2d(3, dim, 4, 4)
        self.cls = nn.Parameter(torch.zeros(1, 1, dim))
        self.pos = nn.Parameter(torch.zeros(1, 17, dim))
        self.blocks = nn.Sequential(Block(dim, 4), Block(dim, 4))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, classes)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, img):
        x = self.patch(img).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(x.shape[0], -1, -1), x], 1) + self.pos
        return self.head(self.norm(self.blocks(x))[:, 0])


class AdaBlock(nn.Module):
    """A transformer block modulated by a condition, with gates that begin at zero."""

    def __init__(self, dim=32):
        super().__init__()
        self.norm = nn.LayerNorm(dim, elementwise_affine=False)
        self.mod = nn.Sequential(nn.SiLU(), nn.Linear(dim, 3 * dim))
        self.mlp = nn.Linear(dim, dim)
        nn.init.zeros_(self.mod[1].weight)
        nn.init.zeros_(self.mod[1].bias)

    def forward(self, x, cond):
        shift, scale, gate = self.mod(cond).unsqueeze(1).chunk(3, -1)
        return x + gate * self.mlp(self.norm(x) * (1 + scale) + shift)


class MixerLayer(nn.Module):
    def __init__(self, tokens=16, dim=24):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.tok = nn.Linear(tokens, tokens)
        self.head = nn.Linear(dim, 5)
        nn.init.zeros_(self.head.weight)

    def forward(self, x):
        x = x + self.tok(self.norm(x).transpose(1, 2)).transpose(1, 2)
        return self.head(x.mean(1))


class NormConv(nn.Module):
    """A convolution in training mode, whose batch statistics move in place."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.bn = nn.BatchNorm2d(8)

    @torch.no_grad()
    def forward(self, x):
        y = F.relu(self.bn(self.conv(x)))
        return F.adaptive_avg_pool2d(y, 2)


class Codec:
    def __init__(self, device):
        with torch.inference_mode():
            self.net = nn.Sequential(nn.Conv1d(4, 8, 3, padding=1), nn.ELU(), nn.Conv1d(8, 4, 3, padding=1)).to(device)

    @torch.inference_mode()
    def decode(self, z):
        return self.net(z)


class Resampler:
    def __init__(self, device):
        base = torch.linspace(-1, 1, 8, device=device)
        self.grid = torch.stack(torch.meshgrid(base, base, indexing="xy"), -1).unsqueeze(0)

    def __call__(self, img, flow):
        return F.grid_sample(img, self.grid + 0.1 * flow, align_corners=False)


class Patches(nn.Module):
    def forward(self, img):
        cols = img.unfold(2, 4, 2).unfold(3, 4, 2)
        windows = torch.as_strided(img, (2, 3, 4, 4), (img.stride(0), img.stride(1), 2 * img.stride(2), 2))
        return cols.amax((-1, -2)).mean() + windows.diagonal(dim1=-2, dim2=-1).sum(-1)


def build_vit(device):
    return TinyViT().to(device).eval(), (torch.randn(2, 3, 16, 16, device=device),)


def build_adaln(device):
    return AdaBlock().to(device), (torch.randn(2, 6, 32, device=device), torch.randn(2, 32, device=device))


def build_mixer(device):
    return MixerLayer().to(device).eval(), (torch.randn(2, 16, 24, device=device),)


def build_norm_conv(device):
    return NormConv().to(device), (torch.randn(2, 3, 8, 8, device=device),)


def build_codec(device):
    return Codec(device).decode, (torch.randn(2, 4, 16, device=device),)


def build_resampler(device):
    return Resampler(device), (torch.randn(1, 2, 8, 8, device=device), torch.randn(1, 8, 8, 2, device=device))


def build_patches(device):
    return Patches(), (torch.randn(2, 3, 12, 12, device=device),)
