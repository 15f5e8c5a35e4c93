"""Embedded Heun/Euler pair with step halving, one frame of a driven oscillator per call."""
from __future__ import annotations

import dataclasses
import math

import torch


@dataclasses.dataclass(frozen=True)
class Frame:
    t: float
    y: torch.Tensor
    h: torch.Tensor


class Trial:
    """Outcome of one attempted step; true when it may be kept."""

    def __init__(self, y: torch.Tensor, error: torch.Tensor):
        self.y = y
        self.error = error

    def __bool__(self) -> bool:
        return bool(self.error <= 1.0)


class Oscillator:
    def __init__(self, stiffness: torch.Tensor, freq: float):
        self.stiffness = stiffness
        self.freq = freq

    def __call__(self, t: float, y: torch.Tensor, drive: torch.Tensor) -> torch.Tensor:
        pos, vel = y.unbind(-1)
        push = drive * math.cos(self.freq * t)
        return torch.stack([vel, push - self.stiffness * pos], dim=-1)


class Heun:
    tick = 1 / 60

    def __init__(self, field, y0: torch.Tensor, h0: float, tries: int = 3, tol: float = 1e-3):
        self.field = field
        self.tries = tries
        self.tol = tol
        self.frame = Frame(0.0, y0, torch.full((), h0, device=y0.device))
        self.energies: list[torch.Tensor] = []

    def attempt(self, frame: Frame, drive: torch.Tensor) -> Trial:
        k1 = self.field(frame.t, frame.y, drive)
        euler = frame.y + frame.h * k1
        k2 = self.field(frame.t + self.tick, euler, drive)
        heun = frame.y + 0.5 * frame.h * (k1 + k2)
        scale = self.tol * (1 + frame.y.abs().amax())
        return Trial(heun, (heun - euler).abs().amax() / scale)

    def __call__(self, drive: torch.Tensor) -> torch.Tensor:
        frame = self.frame
        trial = self.attempt(frame, drive)
        for _ in range(self.tries):
            if trial:
                break
            frame = dataclasses.replace(frame, h=frame.h * 0.5)
            trial = self.attempt(frame, drive)
        self.frame = dataclasses.replace(
            frame,
            t=frame.t + self.tick,
            y=trial.y,
        )
        self.energies.append(trial.y.square().sum())
        return trial.y

    def mean_energy(self) -> torch.Tensor:
        return torch.stack(self.energies).mean()


def build(device):
    stiffness = torch.linspace(0.5, 4.0, 12, device=device)
    y0 = torch.stack([torch.ones(12, device=device), torch.zeros(12, device=device)], dim=-1)
    solver = Heun(Oscillator(stiffness, freq=3.0), y0, h0=0.05)
    return solver, (torch.rand(12, device=device),)
