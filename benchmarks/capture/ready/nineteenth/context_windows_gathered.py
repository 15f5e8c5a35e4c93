"""Long video by overlapping windows of frames: sound, device rows of frame numbers gather the windows."""
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
    rows = torch.arange(WIDTH, device=device) + torch.tensor(windows.starts(), device=device).unsqueeze(1)
    rows.remainder_(FRAMES)

    def denoise(window):
        return torch.tanh(window @ mixer - window.mean(0))

    def step(latents):
        total = torch.zeros_like(latents)
        for row in rows:
            noise = denoise(latents.index_select(0, row))
            total.index_add_(0, row, noise)
        return latents - total * (STRIDE / WIDTH)

    def refresh(args, kwargs, k):
        windows.number += 1
        starts = torch.tensor(windows.starts()).unsqueeze(1)
        rows.copy_((torch.arange(WIDTH) + starts) % FRAMES)
        args[0].copy_(torch.randn(FRAMES, dim))

    return graphsafe.Step(step, (torch.randn(FRAMES, dim, device=device),), refresh=refresh)
