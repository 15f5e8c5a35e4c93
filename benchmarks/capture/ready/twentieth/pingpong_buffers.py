"""2-D wave equation with two buffers swapped after each step (the usual ping-pong)."""
import torch
import torch.nn.functional as F

import graphsafe


class Wave:
    def __init__(self, n, device, c=0.4, damping=0.999):
        self.u = torch.zeros(1, 1, n, n, device=device)
        self.u_prev = torch.zeros_like(self.u)
        self.c2 = c * c
        self.damping = damping
        self.kernel = torch.tensor([[0.0, 1.0, 0.0], [1.0, -4.0, 1.0], [0.0, 1.0, 0.0]], device=device)[None, None]

    def step(self, source):
        lap = F.conv2d(F.pad(self.u, (1, 1, 1, 1), mode="circular"), self.kernel)
        self.u_prev.neg_().add_(self.u, alpha=2.0).add_(lap, alpha=self.c2)
        self.u_prev.mul_(self.damping).add_(source)
        self.u, self.u_prev = self.u_prev, self.u
        return self.u.square().mean()


def build(device, n=24):
    wave = Wave(n, device)
    source = torch.zeros(1, 1, n, n, device=device)

    def refresh(args, kwargs, k):
        s = torch.zeros(1, 1, n, n)
        s[0, 0, (5 * k) % n, (3 * k) % n] = 1.0
        args[0].copy_(s)

    refresh((source,), {}, 0)
    return graphsafe.Step(wave.step, (source,), refresh=refresh)
