"""One stochastic DDIM update of an image batch, as the sampler service calls it."""
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass(frozen=True)
class NoiseSchedule:
    steps: int = 50
    beta_start: float = 1e-4
    beta_end: float = 2e-2

    def alpha_bar(self, device):
        beta = torch.linspace(self.beta_start, self.beta_end, self.steps, device=device)
        return torch.cumprod(1.0 - beta, dim=0)


class TinyUnet(nn.Module):
    def __init__(self, ch=16, n_cond=8):
        super().__init__()
        self.down = nn.Conv2d(3, ch, 3, stride=2, padding=1)
        self.cond = nn.Linear(n_cond, ch)
        self.mid = nn.Conv2d(ch, ch, 3, padding=1)
        self.up = nn.ConvTranspose2d(ch, 3, 4, stride=2, padding=1)

    def forward(self, x, cond):
        h = F.silu(self.down(x))
        h = h + self.cond(cond)[:, :, None, None]
        h = F.silu(self.mid(h))
        return self.up(h)


class DdimSampler:
    def __init__(self, net, schedule, device, eta=0.3):
        self.net = net
        self.eta = eta
        self.steps = schedule.steps
        self.alpha_bar = schedule.alpha_bar(device)
        self.t = schedule.steps - 1
        self.rng = torch.Generator(device=device)
        self.rng.manual_seed(1234)

    def _pair(self):
        prev = max(self.t - 1, 0)
        return self.alpha_bar[[self.t, prev]]

    def _threshold(self, x0):
        peak = x0.abs().amax()
        if peak > 1.0:
            scale = torch.quantile(x0.abs().flatten(1), 0.99, dim=1).clamp(min=1.0)
            x0 = x0 / scale[:, None, None, None]
        return x0.clamp(-1.0, 1.0)

    @torch.no_grad()
    def step(self, x, cond):
        pair = self._pair()
        a_now, a_prev = pair[:1, None, None, None], pair[1:, None, None, None]
        eps = self.net(x, cond)
        x0 = self._threshold((x - (1 - a_now).sqrt() * eps) / a_now.sqrt())
        var = (1 - a_prev) / (1 - a_now) * (1 - a_now / a_prev)
        sigma = self.eta * var.clamp(min=0).sqrt()
        noise = torch.randn(x.shape, generator=self.rng, device=x.device)
        direction = (1 - a_prev - sigma**2).clamp(min=0).sqrt() * eps
        self.t = self.t - 1 if self.t > 0 else self.steps - 1
        return a_prev.sqrt() * x0 + direction + sigma * noise


def build(device):
    torch.manual_seed(0)
    net = TinyUnet().to(device).eval()
    sampler = DdimSampler(net, NoiseSchedule(), device)
    x = torch.randn(4, 3, 16, 16, device=device)
    cond = torch.randn(4, 8, device=device)
    return sampler.step, (x, cond)
