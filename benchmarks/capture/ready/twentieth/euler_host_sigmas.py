"""Euler sampler (k-diffusion): sigmas in a Python list and a step index on the scheduler object."""
import torch
import torch.nn as nn

import graphsafe


class Denoiser(nn.Module):
    def __init__(self, c=3, dim=16):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(c, dim, 3, padding=1), nn.SiLU(), nn.Conv2d(dim, c, 3, padding=1))

    def forward(self, x, sigma):
        c_in = 1 / (sigma**2 + 1) ** 0.5
        return x - sigma * self.net(x * c_in)


class EulerScheduler:
    def __init__(self, n=30, smin=0.03, smax=14.0, rho=7.0):
        ramp = [i / (n - 1) for i in range(n)]
        self.sigmas = [(smax ** (1 / rho) + r * (smin ** (1 / rho) - smax ** (1 / rho))) ** rho for r in ramp] + [0.0]
        self.step_index = 0

    @property
    def sigma(self):
        return self.sigmas[self.step_index]

    def step(self, model_output, sample):
        sigma = self.sigma
        derivative = (sample - model_output) / sigma
        dt = self.sigmas[self.step_index + 1] - sigma
        self.step_index = (self.step_index + 1) % (len(self.sigmas) - 1)
        return sample + derivative * dt


def build(device, batch=2):
    model = Denoiser().to(device).requires_grad_(False)
    sched = EulerScheduler()
    x = torch.randn(batch, 3, 8, 8, device=device)

    def step(x):
        denoised = model(x, sched.sigma)
        x.copy_(sched.step(denoised, x))
        return denoised

    def reset():
        sched.step_index = 0

    def refresh(args, kwargs, k):
        if sched.step_index == 0:
            args[0].copy_(torch.randn(batch, 3, 8, 8) * 14)

    return graphsafe.Step(step, (x,), refresh=refresh, reset=reset)
