"""Diffusion training whose noise and timesteps come from the trainer's own torch.Generator on the device."""
import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe


class Denoiser(nn.Module):
    def __init__(self, d=16, steps=100):
        super().__init__()
        self.t = nn.Embedding(steps, d)
        self.net = nn.Sequential(nn.Linear(d, 64), nn.SiLU(), nn.Linear(64, d))

    def forward(self, x, t):
        return self.net(x + self.t(t))


class DDPMTrainer:
    def __init__(self, device, steps=100, seed=1234):
        self.model = Denoiser(steps=steps).to(device)
        self.opt = torch.optim.Adam(self.model.parameters(), lr=1e-3, capturable=True)
        self.ac = torch.cumprod(1 - torch.linspace(1e-4, 0.02, steps), 0).to(device)
        self.generator = torch.Generator(device=device).manual_seed(seed)
        self.steps = steps

    def train_step(self, x):
        t = torch.randint(0, self.steps, (x.shape[0],), device=x.device, generator=self.generator)
        noise = torch.randn(x.shape, device=x.device, generator=self.generator)
        a = self.ac[t][:, None]
        noisy = a.sqrt() * x + (1 - a).sqrt() * noise
        self.opt.zero_grad()
        loss = F.mse_loss(self.model(noisy, t), noise)
        loss.backward()
        self.opt.step()
        return loss.detach()


def build(device, batch=8):
    trainer = DDPMTrainer(device)
    x = torch.randn(batch, 16, device=device)
    return graphsafe.Step(trainer.train_step, (x,), refresh=lambda a, k, i: a[0].copy_(torch.randn(batch, 16)))
