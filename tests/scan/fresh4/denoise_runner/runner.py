from __future__ import annotations

from typing import Callable, Iterator, Sequence

import torch

from .nets import UNet


class Euler:
    def __init__(self, sigmas: Sequence[float]):
        self.sigmas = [float(sigma) for sigma in sigmas]

    def __iter__(self) -> Iterator[tuple[float, float]]:
        return zip(self.sigmas, self.sigmas[1:])

    def step_(self, x: torch.Tensor, eps: torch.Tensor, sigma: float, following: float) -> torch.Tensor:
        return x.add_(eps, alpha=following - sigma)


class ImageRunner:
    def __init__(self, unet: UNet, size: int, seed: int = 0, device: str = "cuda"):
        self.unet = unet
        self.rng = torch.Generator(device=device)
        self.rng.manual_seed(seed)
        self.shape = (1, 4, size, size)
        self.device = device
        self.latents = torch.zeros(self.shape, device=device)
        self.sigma = torch.zeros((), device=device)
        self.guidance = torch.full((), 5.0, device=device)
        self.ctx = torch.zeros(1, 8, device=device)
        self.blank = torch.zeros(1, 8, device=device)
        self.observers: dict[str, Callable[[int, torch.Tensor], None]] = {}
        self.graph: torch.cuda.CUDAGraph | None = None

    def _eps(self) -> torch.Tensor:
        jitter = torch.randn(self.shape, generator=self.rng, device=self.device)
        x = self.latents + 0.02 * self.sigma * jitter
        cond = self.unet(x, self.sigma, self.ctx)
        free = self.unet(x, self.sigma, self.blank)
        return (free + self.guidance * (cond - free)).float()

    @torch.no_grad()
    def record(self) -> None:
        side = torch.cuda.Stream()
        with torch.autocast("cuda", dtype=torch.bfloat16, cache_enabled=False):
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(2):
                    self._eps()
            torch.cuda.current_stream().wait_stream(side)
            self.graph = torch.cuda.CUDAGraph()
            self.graph.register_generator_state(self.rng)
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
            euler.step_(self.latents, self.eps, sigma, following)
            for notify in self.observers.values():
                notify(index, self.latents)
        return self.latents.clone()
