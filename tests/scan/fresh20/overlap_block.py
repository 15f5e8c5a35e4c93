"""Encoder block that overlaps its adapter and its running statistics with the main path."""
import torch
from torch import nn


class OverlapBlock(nn.Module):
    def __init__(self, dim=16, device=None):
        super().__init__()
        self.mix = nn.Conv1d(dim, dim, 3, padding=1, groups=4)
        self.ff = nn.Sequential(nn.Linear(dim, 3 * dim), nn.GELU(), nn.Linear(3 * dim, dim))
        self.adapter = nn.Linear(dim, dim, bias=False)
        self.register_buffer("mean", torch.zeros(dim))
        self.side = torch.cuda.Stream(device)
        self.stat = torch.cuda.Stream(device)
        self.ready, self.done = torch.cuda.Event(), torch.cuda.Event()

    def forward(self, x, gate):
        main = torch.cuda.current_stream(x.device)
        h = self.mix(x.transpose(1, 2)).transpose(1, 2)
        self.ready.record(main)
        self.side.wait_event(self.ready)
        with torch.cuda.stream(self.side):
            extra = torch.tanh(self.adapter(h))
            self.done.record(self.side)
        self.stat.wait_event(self.ready)
        with torch.cuda.stream(self.stat):
            self.mean.lerp_(h.mean((0, 1)), 0.1)
        y = self.ff(h)
        main.wait_event(self.done)
        main.wait_stream(self.stat)
        return x + y + gate * extra - self.mean


def build(device):
    torch.manual_seed(11)
    blocks = nn.ModuleList(OverlapBlock(device=device) for _ in range(2)).to(device)

    @torch.no_grad()
    def encode(x, gate):
        for block in blocks:
            x = block(x, gate)
        return x

    return encode, (torch.randn(2, 9, 16, device=device), torch.rand(16, device=device))
