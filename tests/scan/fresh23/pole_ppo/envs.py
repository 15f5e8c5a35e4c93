"""Batched cart-pole on the GPU; episodes restart by themselves."""
import math

import torch


class CartPoles:
    obs_dim = 4

    def __init__(self, num, device, dt=0.02):
        self.num = num
        self.dt = dt
        self.device = device
        self.state = torch.empty(num, 4, device=device).uniform_(-0.05, 0.05)
        self.length = torch.zeros(num, device=device)
        self.final = torch.zeros(num, device=device)
        self.finished = torch.zeros(num, dtype=torch.bool, device=device)

    def step(self, force):
        x, v, th, om = self.state.unbind(1)
        cos, sin = th.cos(), th.sin()
        temp = (force + 0.05 * om * om * sin) / 1.1
        acc = (9.8 * sin - cos * temp) / (0.5 * (4.0 / 3.0 - 0.1 * cos * cos / 1.1))
        lin = temp - 0.05 * acc * cos / 1.1
        nxt = torch.stack(
            [x + self.dt * v, v + self.dt * lin, th + self.dt * om, om + self.dt * acc], dim=1
        )
        failed = (nxt[:, 0].abs() > 2.4) | (nxt[:, 2].abs() > 12 * math.pi / 180)
        failed = failed | (self.length > 40)
        fresh = torch.rand_like(nxt) * 0.1 - 0.05
        self.state.copy_(torch.where(failed[:, None], fresh, nxt))
        self.finished.copy_(failed)
        self.length.add_(1.0)
        self.final.copy_(self.length)
        self.length.masked_fill_(failed, 0.0)
        return failed.logical_not().float(), failed.float()
