"""Stochastic differential equations by torchsde."""

import torch
from torch import nn


class Motion(nn.Module):
    """A drift and a diagonal diffusion, both learnt."""

    noise_type = "diagonal"

    def __init__(self, sde_type, width=4):
        super().__init__()
        self.sde_type = sde_type
        self.drift = nn.Sequential(nn.Linear(width, 16), nn.Tanh(), nn.Linear(16, width))
        self.spread = nn.Sequential(nn.Linear(width, width), nn.Sigmoid())

    def f(self, t, y):
        return self.drift(y)

    def g(self, t, y):
        return self.spread(y)


def solved(sde_type, **options):
    def build(device):
        from torchsde import sdeint

        motion, times = Motion(sde_type).to(device), torch.linspace(0, 1, 4, device=device)

        @torch.no_grad()
        def step(start):
            return sdeint(motion, start, times, dt=0.1, **options)[-1]

        return step, (torch.randn(8, 4, device=device),)

    return build


euler_maruyama = solved("ito", method="euler")
milstein = solved("ito", method="milstein")
runge_kutta = solved("ito", method="srk")
heun = solved("stratonovich", method="heun")
reversible_heun = solved("stratonovich", method="reversible_heun")
adaptive_milstein = solved("ito", method="milstein", adaptive=True, rtol=1e-2, atol=1e-2)


def adjoint_training(device):
    """A neural equation fitted to its end point, its gradient from the adjoint equation."""
    from torchsde import sdeint_adjoint

    motion, times = Motion("stratonovich").to(device), torch.linspace(0, 1, 3, device=device)
    optimizer = torch.optim.Adam(motion.parameters(), lr=1e-3)

    def step(start, end):
        optimizer.zero_grad()
        loss = (sdeint_adjoint(motion, start, times, dt=0.2, method="midpoint")[-1] - end).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (torch.randn(8, 4, device=device), torch.randn(8, 4, device=device))


def interval_queries(device):
    """Increments of one Brownian motion, asked for out of order."""
    from torchsde import BrownianInterval

    motion = BrownianInterval(t0=0.0, t1=1.0, size=(8, 4), device=device, entropy=7)

    def step(x):
        return x + motion(0.2, 0.4) + motion(0.0, 0.2) + motion(0.4, 0.9)

    return step, (torch.randn(8, 4, device=device),)
