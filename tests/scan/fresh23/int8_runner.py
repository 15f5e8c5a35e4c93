"""LLM.int8-style feed-forward: activations are quantised per tensor, outlier columns stay in float."""
import torch
from torch import nn


def quantise(weight: torch.Tensor):
    scale = weight.abs().amax(dim=1, keepdim=True) / 127
    return (weight / scale).round().clamp_(-127, 127).to(torch.int8), scale


class Int8Linear(nn.Module):
    def __init__(self, fin: int, fout: int, threshold: float = 2.5):
        super().__init__()
        codes, scale = quantise(torch.randn(fout, fin) / fin**0.5)
        self.register_buffer("codes", codes)
        self.register_buffer("scale", scale)
        self.register_buffer("bias", torch.zeros(fout))
        self.threshold = threshold
        self.step_size = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.step_size is None:
            self.step_size = x.detach().abs().amax() / 127
        big = x.abs().amax(dim=0) > self.threshold
        weight = self.codes.to(x.dtype) * self.scale
        side = x[:, big] @ weight[:, big].T
        inliers = torch.where(big, 0.0, x)
        q = (inliers / self.step_size).round().clamp(-127, 127)
        return q * self.step_size @ weight.T + side + self.bias


class GatedFeedForward(nn.Module):
    def __init__(self, dim: int, hidden: int):
        super().__init__()
        self.gate = Int8Linear(dim, hidden)
        self.up = Int8Linear(dim, hidden)
        self.down = Int8Linear(hidden, dim)
        self.norm = nn.RMSNorm(dim)
        self.register_buffer("clip", torch.tensor(6.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.norm(x)
        act = nn.functional.silu(self.gate(h)) * self.up(h)
        limit = float(self.clip)
        return x + self.down(act.clamp(-limit, limit))


class Int8Runner:
    def __init__(self, layers: nn.ModuleList):
        self.layers = layers
        self.calls = 0

    @torch.no_grad()
    def decode(self, hidden: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        for layer in self.layers:
            hidden = layer(hidden)
        return hidden


def build(device, batch: int = 4, dim: int = 32):
    torch.manual_seed(0)
    layers = nn.ModuleList(GatedFeedForward(dim, 2 * dim) for _ in range(2)).to(device)
    runner = Int8Runner(layers)
    return runner.decode, (torch.randn(batch, dim, device=device) * 2,)
