"""Long video by overlapping windows of frames: faulty, host offsets of the sampling step roll the frames."""
from dataclasses import dataclass

import torch

import graphsafe

FRAMES, WIDTH, STRIDE = 16, 8, 4


@dataclass
class Windows:
    number: int = 0

    def starts(self):
        shift = int(f"{self.number % 8:03b}"[::-1], 2)
        return [start + shift for start in range(0, FRAMES, STRIDE)]


def build(device, dim=6):
    windows = Windows()
    mixer = torch.randn(dim, dim, device=device) / dim**0.5

    def denoise(window):
        return torch.tanh(window @ mixer - window.mean(0))

    def step(latents):
        total = torch.zeros_like(latents)
        for start in windows.starts():
            noise = denoise(latents.roll(-start, 0)[:WIDTH])
            total += torch.nn.functional.pad(noise, (0, 0, 0, FRAMES - WIDTH)).roll(start, 0)
        return latents - total * (STRIDE / WIDTH)

    def refresh(args, kwargs, k):
        windows.number += 1
        args[0].copy_(torch.randn(FRAMES, dim))

    return graphsafe.Step(step, (torch.randn(FRAMES, dim, device=device),), refresh=refresh)
