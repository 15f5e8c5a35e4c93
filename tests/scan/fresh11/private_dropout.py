"""Residual MLP whose regularisation noise has its own reproducible generator."""
import torch
import torch.nn as nn


class NoiseSource:
    def __init__(self, device: torch.device, seed: int):
        self.gen = torch.Generator(device=device).manual_seed(seed)

    def bernoulli(self, like: torch.Tensor, keep: float) -> torch.Tensor:
        draw = torch.rand(like.shape, device=like.device, generator=self.gen)
        return (draw < keep).to(like.dtype) / keep


class ReproducibleDropout(nn.Module):
    def __init__(self, p: float, source: NoiseSource):
        super().__init__()
        self.keep = 1.0 - p
        self.source = source

    def forward(self, x):
        if not self.training:
            return x
        return x * self.source.bernoulli(x, self.keep)


class ResidualBlock(nn.Module):
    def __init__(self, dim: int, drop: ReproducibleDropout):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.up = nn.Linear(dim, 2 * dim)
        self.down = nn.Linear(2 * dim, dim)
        self.drop = drop

    def forward(self, x):
        return x + self.drop(self.down(torch.relu(self.up(self.norm(x)))))


def build(device):
    torch.manual_seed(29)
    source = NoiseSource(device, seed=1234)
    drop = ReproducibleDropout(0.2, source)
    model = nn.Sequential(*(ResidualBlock(24, drop) for _ in range(3))).to(device)
    model.train().requires_grad_(False)
    return model, (torch.randn(8, 24, device=device),)


if __name__ == "__main__":
    model, args = build(torch.device("cuda"))
    print(model(*args).std().item())
