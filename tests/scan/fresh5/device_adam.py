"""A training step with a hand-written Adam whose every number lives on the device."""
from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F


class Decay:
    """Exponential decay of a step size held in a 0-d tensor."""

    def __init__(self, start: float, gamma: float, device, floor: float = 1e-5):
        self.value = torch.full((), start, device=device)
        self.gamma, self.floor = gamma, floor

    def __call__(self) -> torch.Tensor:
        return self.value.mul_(self.gamma).clamp_(min=self.floor)


class DeviceAdam:
    def __init__(self, params, lr: float, betas=(0.9, 0.99), eps: float = 1e-8, clip: float = 1.0):
        self.params = [p for p in params if p.requires_grad]
        device = self.params[0].device
        self.schedule = Decay(lr, 0.999, device)
        self.betas, self.eps, self.clip = betas, eps, clip
        self.powers = torch.ones(2, device=device)
        self.beta_vec = torch.tensor(betas, device=device)
        self.m = [torch.zeros_like(p) for p in self.params]
        self.v = [torch.zeros_like(p) for p in self.params]
        self.skipped = torch.zeros((), dtype=torch.long, device=device)

    def zero_grad(self) -> None:
        for p in self.params:
            p.grad = None

    @torch.no_grad()
    def step(self) -> None:
        grads = [p.grad for p in self.params]
        norm = torch.stack(torch._foreach_norm(grads)).norm()
        healthy = torch.isfinite(norm)
        self.skipped.add_((~healthy).long())
        shrink = (self.clip / (norm + 1e-6)).clamp(max=1.0)
        lr = self.schedule()
        self.powers.mul_(self.beta_vec)
        c1, c2 = (1.0 - self.powers).unbind()
        b1, b2 = self.betas
        for p, g, m, v in zip(self.params, grads, self.m, self.v):
            g = torch.where(healthy, g * shrink, 0.0)
            m.mul_(b1).add_(g, alpha=1.0 - b1)
            v.mul_(b2).addcmul_(g, g, value=1.0 - b2)
            p.sub_(lr * (m / c1) / ((v / c2).sqrt() + self.eps))


class Averaged:
    def __init__(self, net: nn.Module, decay: float = 0.99):
        self.decay = decay
        self.shadow = {k: v.detach().clone() for k, v in net.named_parameters()}

    @torch.no_grad()
    def update(self, net: nn.Module) -> None:
        for k, v in net.named_parameters():
            self.shadow[k].lerp_(v, 1.0 - self.decay)


class TrainStep:
    def __init__(self, net: nn.Module, lr: float = 1e-3):
        self.net = net
        self.opt = DeviceAdam(net.parameters(), lr)
        self.average = Averaged(net)

    def __call__(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        self.opt.zero_grad()
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
