"""DDIM with its whole schedule resident on the device and a device-side step index."""
import math

import torch
from torch import nn


class Schedule:
    def __init__(self, train_steps, steps, device):
        betas = torch.linspace(1e-4, 0.02, train_steps, dtype=torch.float64)
        alphas = (1 - betas).cumprod(0)
        chosen = [round(i * train_steps / steps) for i in range(steps)][::-1]
        now = [alphas[i].item() for i in chosen]
        then = now[1:] + [1.0]
        self.table = torch.tensor(list(zip(now, then)), dtype=torch.float32, device=device)
        self.times = torch.tensor(chosen, dtype=torch.float32, device=device)
        self.index = torch.zeros(1, dtype=torch.long, device=device)
        self.steps = steps

    def restart(self):
        self.index.zero_()

    def advance(self):
        self.index.add_(1).remainder_(self.steps)

    def now(self):
        return self.table.index_select(0, self.index).unbind(1)

    def time(self):
        return self.times.index_select(0, self.index)

    def remaining(self):
        return self.steps - int(self.index)


class TimeEmbedding(nn.Module):
    def __init__(self, dim):
        super().__init__()
        half = dim // 2
        self.register_buffer("freqs", torch.exp(-math.log(10000.0) * torch.arange(half) / half))
        self.net = nn.Sequential(nn.Linear(dim, dim), nn.SiLU(), nn.Linear(dim, dim))

    def forward(self, t):
        angle = t.unsqueeze(1) * self.freqs
        return self.net(torch.cat([angle.cos(), angle.sin()], -1))


class Denoiser(nn.Module):
    def __init__(self, channels=4, width=16):
        super().__init__()
        self.time = TimeEmbedding(width)
        self.inp = nn.Conv2d(channels, width, 3, padding=1)
        self.mid = nn.Conv2d(width, width, 3, padding=1)
        self.out = nn.Conv2d(width, channels, 3, padding=1)

    def forward(self, x, t):
        h = self.inp(x) + self.time(t)[:, :, None, None]
        return self.out(h + torch.nn.functional.silu(self.mid(h)))


class Pipeline:
    def __init__(self, model, schedule, history):
        self.model = model
        self.schedule = schedule
        self.history = history

    @classmethod
    def from_config(cls, config, device):
        model = Denoiser(width=config["width"]).to(device).requires_grad_(False)
        schedule = Schedule(config["train_steps"], config["steps"], device)
        return cls(model, schedule, torch.zeros(config["steps"], device=device))

    def denoise(self, sample):
        alpha, before = self.schedule.now()
        noise = self.model(sample, self.schedule.time())
        clean = (sample - (1 - alpha).sqrt() * noise) / alpha.sqrt()
        self.history.index_copy_(0, self.schedule.index, clean.square().mean().view(1))
        self.schedule.advance()
        return before.sqrt() * clean.clamp(-3, 3) + (1 - before).sqrt() * noise


def build(device):
    pipeline = Pipeline.from_config({"width": 16, "steps": 12, "train_steps": 100}, device)
    return pipeline.denoise, (torch.randn(1, 4, 8, 8, device=device),)
