"""Heun steps with step halving, one frame of a driven oscillator per call."""
from __future__ import annotations

import dataclasses

import torch


@dataclasses.dataclass(frozen=True)
class Trial:
    h: torch.Tensor
    y: torch.Tensor
    error: torch.Tensor

    def or_else(self, other: "Trial") -> "Trial":
        keep = self.error <= 1.0
        return dataclasses.replace(
            self,
            h=torch.where(keep, self.h, other.h),
            y=torch.where(keep, self.y, other.y),
            error=torch.where(keep, self.error, other.error),
        )


class Oscillator:
    def __init__(self, stiffness: torch.Tensor, freq: float):
        self.stiffness = stiffness
        self.freq = freq

    def __call__(self, t: torch.Tensor, y: torch.Tensor, drive: torch.Tensor) -> torch.Tensor:
        pos, vel = y.unbind(-1)
        push = drive * torch.cos(self.freq * t)
        return torch.stack([vel, push - self.stiffness * pos], dim=-1)


class Heun:
    tick = 1 / 60

    def __init__(self, field: Oscillator, y0: torch.Tensor, h0: float, tries: int = 3, tol: float = 1e-3):
        self.field, self.tries, self.tol = field, tries, tol
        self.y0, self.h0 = y0.clone(), h0
        self.y = y0.clone()
        self.t = torch.zeros((), device=y0.device)
        self.h = torch.full((), h0, device=y0.device)
        self.energy = torch.zeros((), device=y0.device)

    def reset(self) -> None:
        self.y.copy_(self.y0)
        self.t.zero_()
        self.h.fill_(self.h0)
        self.energy.zero_()

    def attempt(self, h: torch.Tensor, drive: torch.Tensor) -> Trial:
        k1 = self.field(self.t, self.y, drive)
        euler = self.y + h * k1
        k2 = self.field(self.t + self.tick, euler, drive)
        heun = self.y + 0.5 * h * (k1 + k2)
        scale = self.tol * (1 + self.y.abs().amax())
        return Trial(h, heun, (heun - euler).abs().amax() / scale)

    def __call__(self, drive: torch.Tensor) -> torch.Tensor:
        trial = self.attempt(self.h, drive)
        for _ in range(self.tries):
            trial = trial.or_else(self.attempt(trial.h * 0.5, drive))
        self.y.copy_(trial.y)
        self.h.copy_(trial.h.clamp_min(1e-4))
        self.t.add_(self.tick)
        self.energy.lerp_(trial.y.square().sum(), 0.05)
        return trial.y


def build(device):
    from graphsafe import Step

    stiffness = torch.linspace(0.5, 4.0, 12, device=device)
    y0 = torch.stack([torch.ones(12, device=device), torch.zeros(12, device=device)], dim=-1)
    solver = Heun(Oscillator(stiffness, freq=3.0), y0, h0=0.05)

    def refresh(args, kwargs, k):
        args[0].uniform_(0.0, 1.0)

    return Step(solver, (torch.rand(12, device=device),), {}, refresh=refresh, reset=solver.reset)
