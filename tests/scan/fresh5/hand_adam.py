"""A training step with a hand-written Adam, EMA weights and step-size decay."""
from __future__ import annotations

from collections import defaultdict

import torch
from torch import nn
from torch.nn import functional as F


class Decay:
    def __init__(self, start: float, gamma: float, floor: float = 1e-5):
        self.value, self.gamma, self.floor = start, gamma, floor

    def __call__(self) -> float:
        self.value = max(self.floor, self.value * self.gamma)
        return self.value


class HandAdam:
    def __init__(self, params, lr: float, betas=(0.9, 0.99), eps: float = 1e-8, clip: float = 1.0):
        self.params = [p for p in params if p.requires_grad]
        self.schedule = Decay(lr, 0.999)
        self.betas, self.eps, self.clip = betas, eps, clip
        self.t = 0
        self.state: dict[int, dict[str, torch.Tensor]] = defaultdict(dict)
        for i, p in enumerate(self.params):
            self.state[i].update(m=torch.zeros_like(p), v=torch.zeros_like(p))

    def _shrink(self) -> torch.Tensor | float:
        norms = torch.stack([p.grad.norm() for p in self.params])
        return min(1.0, self.clip / (norms.norm() + 1e-6))

    @property
    def correction(self) -> tuple[float, float]:
        return tuple(1.0 - b**self.t for b in self.betas)

    @torch.no_grad()
    def step(self) -> None:
        self.t += 1
        lr = self.schedule()
        c1, c2 = self.correction
        b1, b2 = self.betas
        shrink = self._shrink()
        for i, p in enumerate(self.params):
            g = p.grad * shrink
            s = self.state[i]
            s["m"].mul_(b1).add_(g, alpha=1.0 - b1)
            s["v"].mul_(b2).addcmul_(g, g, value=1.0 - b2)
            update = (s["m"] / c1) / ((s["v"] / c2).sqrt() + self.eps)
            p.data = p.data - lr * update
            p.grad = None


class Averaged:
    """Shadow weights for evaluation."""

    def __init__(self, net: nn.Module, decay: float = 0.99):
        self.decay = decay
        self.shadow = {k: v.detach().clone() for k, v in net.named_parameters()}

    @torch.no_grad()
    def update(self, net: nn.Module) -> None:
        for k, v in net.named_parameters():
            self.shadow[k] = self.decay * self.shadow[k] + (1.0 - self.decay) * v


class TrainStep:
    def __init__(self, net: nn.Module, lr: float = 1e-3):
        self.net = net
        self.opt = HandAdam(net.parameters(), lr)
        self.average = Averaged(net)

    def __call__(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        loss = F.mse_loss(self.net(x), y)
        loss.backward()
        self.opt.step()
        self.average.update(self.net)
        return loss.detach()


def build(device, batch: int = 32):
    torch.manual_seed(2)
    net = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 2)).to(device)
    step = TrainStep(net)
    return step, (torch.randn(batch, 8, device=device), torch.randn(batch, 2, device=device))
