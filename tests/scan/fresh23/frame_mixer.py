"""One denoising step of a video model; spatial and temporal branches run on two streams."""
import math

import torch
import torch.nn.functional as F
from torch import nn


def sinusoid(length, width, device):
    half = torch.arange(width // 2, device=device, dtype=torch.float32)
    freq = torch.exp(-math.log(10000.0) * half / (width // 2))
    angle = torch.arange(length, device=device, dtype=torch.float32)[:, None] * freq
    return torch.cat([angle.sin(), angle.cos()], dim=1)


class SpatialMix(nn.Module):
    def __init__(self, ch):
        super().__init__()
        self.norm = nn.GroupNorm(4, ch)
        self.conv = nn.Conv2d(ch, ch, 3, padding=1)

    def forward(self, x):
        b, t, c, h, w = x.shape
        y = self.conv(F.silu(self.norm(x.reshape(b * t, c, h, w))))
        return y.view(b, t, c, h, w)


class TemporalMix(nn.Module):
    def __init__(self, ch, heads=2):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(ch, 3 * ch)
        self.out = nn.Linear(ch, ch)
        self.positions = {}

    def forward(self, x):
        b, t, c, h, w = x.shape
        key = (t, c, x.device)
        pos = self.positions.get(key)
        if pos is None:
            pos = self.positions[key] = sinusoid(t, c, x.device)
        y = x.permute(0, 3, 4, 1, 2).reshape(b * h * w, t, c) + pos
        q, k, v = self.qkv(y).view(-1, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        y = self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(-1, t, c))
        return y.view(b, h, w, t, c).permute(0, 3, 4, 1, 2)


class TwoPath(nn.Module):
    def __init__(self, ch, lane):
        super().__init__()
        self.space = SpatialMix(ch)
        self.time = TemporalMix(ch)
        self.gate = nn.Parameter(torch.zeros(ch, 1, 1))
        self.lane = lane
        self.fork = torch.cuda.Event()
        self.join = torch.cuda.Event()

    def forward(self, x):
        main = torch.cuda.current_stream(x.device)
        self.fork.record(main)
        with torch.cuda.stream(self.lane):
            self.lane.wait_event(self.fork)
            moved = self.time(x)
            moved.record_stream(main)
            self.join.record(self.lane)
        still = self.space(x)
        main.wait_event(self.join)
        return x + torch.lerp(still, moved, self.gate.sigmoid())


class FrameMixer(nn.Module):
    def __init__(self, device, ch=8, depth=2, steps=50):
        super().__init__()
        lane = torch.cuda.Stream(device)
        self.inp = nn.Conv2d(4, ch, 1)
        self.blocks = nn.ModuleList(TwoPath(ch, lane) for _ in range(depth))
        self.out = nn.Conv2d(ch, 4, 1)
        betas = torch.linspace(1e-4, 2e-2, steps)
        self.register_buffer("abar", torch.cumprod(1 - betas, 0))
        self.to(device)

    def forward(self, latents, index, text, cfg):
        if not torch.cuda.is_current_stream_capturing():
            assert latents.is_contiguous(), latents.stride()
        b, t = latents.shape[:2]
        pair = torch.cat([latents, latents])
        x = self.inp(pair.flatten(0, 1)).unflatten(0, (2 * b, t))
        x = x + F.pad(text, (0, 0, 0, b))[: 2 * b, None, :, None, None]
        for block in self.blocks:
            x = block(x)
        cond, free = self.out(x.flatten(0, 1)).unflatten(0, (2 * b, t)).chunk(2)
        eps = free + cfg.view(-1, 1, 1, 1, 1) * (cond - free)
        now = self.abar.index_select(0, index).view(-1, 1, 1, 1, 1)
        nxt = self.abar.index_select(0, (index - 1).clamp_min(0)).view(-1, 1, 1, 1, 1)
        clean = (latents - (1 - now).sqrt() * eps) / now.sqrt()
        return nxt.sqrt() * clean.clamp(-3, 3) + (1 - nxt).sqrt() * eps


def build(device):
    torch.manual_seed(2)
    net = FrameMixer(device).eval().requires_grad_(False)
    latents = torch.randn(2, 5, 4, 6, 6, device=device)
    index = torch.tensor([31, 12], device=device)
    text = torch.randn(2, 8, device=device)
    cfg = torch.tensor([4.0, 7.5], device=device)
    return net, (latents, index, text, cfg)
