"""State space blocks and the feeds in front of them."""
import math
from contextlib import nullcontext

import torch
from torch import nn


def lane(device):
    return torch.cuda.Stream(device) if device.type == "cuda" else None


def on(stream):
    return torch.cuda.stream(stream) if stream is not None else nullcontext()


class RingScan:
    """A short ring of past inputs; combined with fixed taps."""

    def __init__(self, device, rows=8, dim=16):
        self.ring = torch.zeros(rows, dim, device=device)
        self.taps = torch.randn(rows, 1, device=device)
        self.at = torch.zeros(1, dtype=torch.int64, device=device)
        self.mirror = torch.zeros(1, dtype=torch.int64, pin_memory=device.type == "cuda")

    def __call__(self, x):
        row = self.mirror.item()
        self.ring[row].copy_(x)
        self.at.add_(1).remainder_(self.ring.shape[0])
        self.mirror.copy_(self.at, non_blocking=True)
        return (self.ring * self.taps).sum(dim=0)


def build_ring_scan(device):
    return RingScan(device), (torch.randn(16, device=device),)


def chunk_decay(states, chunk, device, memo={}):
    if states not in memo:
        memo[states] = torch.linspace(0.5, 0.95, states, device=device) ** torch.arange(chunk, device=device).unsqueeze(1)
    return memo[states]


def build_chunk_scan(device, batch=4):
    chunk = 32 // batch

    def step(x):
        decay = chunk_decay(12, chunk, device)
        recent = x[:, -decay.shape[0] :]
        return (recent.flip(1) * decay).sum(dim=1), x.mean(dim=1)

    return step, (torch.randn(batch, chunk, 12, device=device),)


class SelectiveState(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.gate = nn.Linear(dim, dim)
        self.input = nn.Linear(dim, dim)
        self.register_buffer("state", torch.zeros(3, dim))

    @torch.no_grad()
    def forward(self, x):
        keep = 0.5 + 0.5 * torch.sigmoid(self.gate(x))
        self.state = keep * self.state + (1 - keep) * self.input(x)
        return self.state * torch.sigmoid(x)


def build_selective_state(device):
    return SelectiveState().to(device), (torch.randn(3, 16, device=device),)


class FreshState(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.gate = nn.Linear(dim, dim)
        self.input = nn.Linear(dim, dim)
        self.state = None

    @torch.no_grad()
    def forward(self, x):
        self.state = torch.zeros_like(x[:, 0])
        for t in range(x.shape[1]):
            keep = torch.sigmoid(self.gate(x[:, t]))
            self.state = keep * self.state + (1 - keep) * self.input(x[:, t])
        return self.state


def build_fresh_state(device):
    return FreshState().to(device), (torch.randn(3, 4, 16, device=device),)


class SensorFeed:
    """Readings arrive as an array and go through one staging buffer."""

    def __init__(self, device, n=24):
        self.staging = torch.zeros(n, pin_memory=device.type == "cuda")
        self.stage = self.staging.numpy()
        self.input = torch.zeros(n, device=device)
        self.state = torch.zeros(n, device=device)

    def __call__(self, readings, drive):
        self.stage[:] = readings
        self.input.copy_(self.staging, non_blocking=True)
        self.state.mul_(0.9).add_(self.input * drive)
        return self.state.clone()


def build_sensor_feed(device):
    return SensorFeed(device), (torch.randn(24).numpy(), torch.rand(24, device=device))


class ScanChain:
    """Project, scan, gate: one stage a stream, each waiting for the stage before it."""

    def __init__(self, device, dim=128):
        self.w = [torch.randn(dim, dim, device=device) / math.sqrt(dim) for _ in range(2)]
        self.projected = torch.zeros(32, dim, device=device)
        self.gated = torch.zeros(32, dim, device=device)
        self.first, self.second = lane(device), lane(device)

    def __call__(self, x):
        parallel = self.first is not None
        main = torch.cuda.current_stream() if parallel else None
        if parallel:
            self.first.wait_stream(main)
        with on(self.first):
            h = x
            for _ in range(6):
                h = torch.tanh(h @ self.w[0])
            self.projected.copy_(h)
        if parallel:
            self.second.wait_stream(self.first)
        with on(self.second):
            self.gated.copy_(torch.sigmoid(self.projected.cumsum(dim=0) @ self.w[1]))
        energy = x.square().mean(dim=-1)
        if parallel:
            main.wait_stream(self.second)
        return self.projected * self.gated, energy


def build_scan_chain(device):
    return ScanChain(device), (torch.randn(32, 128, device=device),)
