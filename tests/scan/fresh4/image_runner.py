"""Text-to-image sampling with one recorded U-Net step per resolution."""
from __future__ import annotations

from typing import Callable, Iterator, Sequence

import torch
from torch import nn


class UNet(nn.Module):
    def __init__(self, channels: int = 4, width: int = 16):
        super().__init__()
        self.inp = nn.Conv2d(channels, width, 3, padding=1)
        self.time = nn.Linear(1, width)
        self.text = nn.Linear(8, width)
        self.out = nn.Conv2d(width, channels, 3, padding=1)

    def forward(self, x, sigma, ctx):
        shift = self.time(sigma.view(1, 1)) + self.text(ctx)
        return self.out(torch.relu(self.inp(x) + shift[..., None, None]))


class Euler:
    def __init__(self, sigmas: Sequence[float]):
        self.sigmas = list(sigmas)

    def __iter__(self) -> Iterator[tuple[float, float]]:
        return zip(self.sigmas, self.sigmas[1:])

    def step(self, x: torch.Tensor, eps: torch.Tensor, sigma: float, following: float) -> torch.Tensor:
        return x + eps * (following - sigma)


class ImageRunner:
    def __init__(self, unet: UNet, size: int, seed: int = 0, device: str = "cuda"):
        self.unet = unet
        self.rng = torch.Generator(device=device)
        self.rng.manual_seed(seed)
        self.shape = (1, 4, size, size)
        self.latents = torch.zeros(self.shape, device=device)
        self.sigma = torch.zeros((), device=device)
        self.ctx = torch.zeros(1, 8, device=device)
        self.guidance = torch.full((), 5.0, device=device)
        self.device = device
        self.observers: dict[str, Callable] = {}
        self.graph = None

    def _eps(self) -> torch.Tensor:
        jitter = torch.randn(self.shape, generator=self.rng, device=self.device)
        x = self.latents + 0.02 * self.sigma * jitter
        cond = self.unet(x, self.sigma, self.ctx)
        free = self.unet(x, self.sigma, torch.zeros_like(self.ctx))
        return free + self.guidance * (cond - free)

    @torch.no_grad()
    def record(self) -> None:
        side = torch.cuda.Stream()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(2):
                    self._eps()
            torch.cuda.current_stream().wait_stream(side)
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.eps = self._eps()

    @torch.no_grad()
    def sample(self, ctx: torch.Tensor, euler: Euler) -> torch.Tensor:
        if self.graph is None:
            self.record()
        self.ctx.copy_(ctx)
        self.latents.normal_().mul_(euler.sigmas[0])
        for index, (sigma, following) in enumerate(euler):
            self.sigma.fill_(sigma)
            self.guidance.fill_(5.0 - 0.1 * index)
            self.graph.replay()
            self.latents = euler.step(self.latents, self.eps, sigma, following)
            for notify in self.observers.values():
                notify(index, self.latents)
        return self.latents


class Preview:
    """Keeps a small picture of every stage."""

    def __init__(self):
        self.stages = []

    def __call__(self, index: int, latents: torch.Tensor) -> None:
        small = nn.functional.avg_pool2d(latents, 4)[0, :3]
        self.stages.append(small.cpu().numpy())


def main() -> None:
    runner = ImageRunner(UNet().to("cuda"), size=32)
    runner.observers["preview"] = Preview()
    euler = Euler([14.0, 9.0, 5.0, 2.5, 1.0, 0.3, 0.0])
    for _ in range(3):
        runner.sample(torch.randn(1, 8, device="cuda"), euler)


if __name__ == "__main__":
    main()
