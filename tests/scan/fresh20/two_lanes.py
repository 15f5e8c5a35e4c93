"""Attention and MLP of a parallel transformer block on two streams."""
import torch
from torch import nn


class ParallelBlock(nn.Module):
    def __init__(self, dim=24, heads=3, device=None):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(dim)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.fc, self.out = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)
        self.lane = torch.cuda.Stream(device)
        self.stats_lane = torch.cuda.Stream(device)
        self.register_buffer("energy", torch.zeros(dim))

    def attend(self, h):
        b, t, d = h.shape
        q, k, v = self.qkv(h).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        att = (q @ k.transpose(-1, -2) * (d // self.heads) ** -0.5).softmax(-1)
        return self.proj((att @ v).transpose(1, 2).reshape(b, t, d))

    def forward(self, x, bias):
        home = torch.cuda.current_stream()
        h = self.norm(x)
        self.lane.wait_stream(home)
        with torch.cuda.stream(self.lane):
            mlp = self.out(torch.relu(self.fc(h)).square())
        att = self.attend(h)
        home.wait_stream(self.lane)
        y = x + att + mlp + bias
        self.stats_lane.wait_stream(home)
        with torch.cuda.stream(self.stats_lane):
            self.energy.lerp_(y.square().mean((0, 1)), 0.05)
        scale = torch.tensor(self.heads**-0.5, device=x.device)
        return y * scale


def build(device):
    torch.manual_seed(0)
    block = ParallelBlock(device=device).to(device).eval()
    args = torch.randn(2, 7, 24, device=device), torch.zeros(24, device=device)
    return torch.no_grad()(lambda x, bias: block(x, bias)), args
