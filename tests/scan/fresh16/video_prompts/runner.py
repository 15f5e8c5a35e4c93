"""Holds the static tensors of one Euler step and its graph."""

from __future__ import annotations

import torch
from denoiser import CHANNELS, FRAMES, PROMPT, SIDE, Denoiser


class StepRunner:
    def __init__(self, device: torch.device):
        self.model = Denoiser().to(device).eval()
        self.latent = torch.zeros(1, CHANNELS, FRAMES, SIDE, SIDE, device=device)
        self.positive = torch.zeros(1, PROMPT, device=device)
        self.negative = torch.zeros(1, PROMPT, device=device)
        self.guidance = torch.full((), 4.0, device=device)
        self.width = 0.05
        self.graph = torch.cuda.CUDAGraph()

    def body(self) -> None:
        both = self.model(self.latent.expand(2, -1, -1, -1, -1), torch.cat((self.positive, self.negative)))
        guided = torch.lerp(both[1:], both[:1], self.guidance)
        self.latent.sub_(guided, alpha=self.width)

    def capture(self) -> None:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.body()
        torch.cuda.current_stream().wait_stream(side)
        with torch.cuda.graph(self.graph):
            self.body()

    def load(self, positive: torch.Tensor, negative: torch.Tensor | None, guidance: float) -> None:
        self.latent.normal_()
        self.positive.copy_(positive)
        if negative is not None:
            self.negative.copy_(negative)
        self.guidance.fill_(guidance)

    def step(self) -> None:
        self.graph.replay()
