"""Denoises a clip in some steps of different widths and makes bytes of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import torch
from denoiser import Prompts
from runner import StepRunner


@dataclass
class Job:
    prompt: torch.Tensor
    avoid: torch.Tensor | None = None
    guidance: float = 4.0
    steps: int = 8


class Pipeline:
    def __init__(self, device: torch.device):
        self.prompts = Prompts().to(device).eval()
        self.runner = StepRunner(device)
        self.runner.capture()

    def clip(self, job: Job) -> bytes:
        avoid = None if job.avoid is None else self.prompts(job.avoid)
        self.runner.load(self.prompts(job.prompt), avoid, job.guidance)
        edges = [(number / job.steps) ** 2 for number in range(job.steps + 1)]
        for low, high in pairwise(edges):
            self.runner.width = high - low
            self.runner.step()
        picture = (self.runner.latent.tanh() * 127.5 + 127.5).byte()
        return picture.cpu().numpy().tobytes()

    def serve(self, jobs) -> Iterator[bytes]:
        for job in jobs:
            yield self.clip(job)
