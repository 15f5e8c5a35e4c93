"""Steps whose refresh changes the host late (after epochs, in an iterator, by a rare draw), and sound twins of them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

import graphsafe


class Scaled:
    """A step that multiplies by a number on the host."""

    def __init__(self, device: torch.device) -> None:
        self.rate = 1.0
        self.epoch = 0
        self.on_device = torch.ones((), device=device)

    def __call__(self, x: Tensor) -> Tensor:
        return x * self.rate

    def by_device(self, x: Tensor) -> Tensor:
        return x * self.on_device


def _x(device: torch.device) -> Tensor:
    return torch.randn(8, device=device)


def build_epochs(device: torch.device) -> graphsafe.Step:
    """The rate falls after 20 epochs of 90 steps."""
    scaled = Scaled(device)

    def refresh(args: tuple[Tensor], kwargs: object, k: int) -> None:
        args[0].copy_(torch.randn(8))
        if k % 90 == 0:
            scaled.epoch += 1
            scaled.rate = 0.5 if scaled.epoch > 20 else 1.0

    return graphsafe.Step(scaled, (_x(device),), refresh=refresh)


def build_epochs_on_device(device: torch.device) -> graphsafe.Step:
    """Sound: the rate of the same epochs is copied to the device."""
    scaled = Scaled(device)

    def refresh(args: tuple[Tensor], kwargs: object, k: int) -> None:
        args[0].copy_(torch.randn(8))
        if k % 90 == 0:
            scaled.epoch += 1
            scaled.on_device.fill_(0.5 if scaled.epoch > 20 else 1.0)

    return graphsafe.Step(scaled.by_device, (_x(device),), refresh=refresh)


def build_iterator(device: torch.device) -> graphsafe.Step:
    """A generator gives the same rate 1,800 times, and then others."""
    scaled = Scaled(device)

    def rates() -> Iterator[float]:
        for _ in range(1_800):
            yield 1.0
        for at in range(1_000_000):
            yield 1.0 - at / 1_000_000

    given = rates()

    def refresh(args: tuple[Tensor], kwargs: object, k: int) -> None:
        args[0].copy_(torch.randn(8))
        scaled.rate = next(given)

    return graphsafe.Step(scaled, (_x(device),), refresh=refresh)


def build_iterator_ends(device: torch.device) -> graphsafe.Step:
    """Sound: the data come to their end after 1,500 steps."""
    data = iter([torch.randn(8)] * 1_500)

    def refresh(args: tuple[Tensor], kwargs: object, k: int) -> None:
        args[0].copy_(next(data))

    return graphsafe.Step(lambda x: x * 2, (_x(device),), refresh=refresh)


def build_rare_draw(device: torch.device) -> graphsafe.Step:
    """One draw in 300 chooses another rate. It lies in the middle of the possible draws."""
    scaled = Scaled(device)

    def refresh(args: tuple[Tensor], kwargs: object, k: int) -> None:
        args[0].copy_(torch.randn(8))
        scaled.rate = 0.0 if 0.4 < random.Random(k * 7_919).random() < 0.4 + 1 / 300 and k > 1_100 else 1.0

    return graphsafe.Step(scaled, (_x(device),), refresh=refresh)


def build_unfrozen(device: torch.device) -> graphsafe.Step:
    """The first layer learns from epoch 5 on, with 313 steps an epoch."""
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8)).to(device)
    model[0].requires_grad_(False)

    def step(x: Tensor) -> Tensor:
        model.zero_grad(set_to_none=False)
        loss = model(x).square().mean()
        loss.backward()
        return loss.detach()

    def refresh(args: tuple[Tensor], kwargs: object, k: int) -> None:
        args[0].copy_(torch.randn(4, 8))
        if k // 313 >= 5:
            model[0].requires_grad_(True)

    return graphsafe.Step(step, (torch.randn(4, 8, device=device),), refresh=refresh)


def build_growing(device: torch.device) -> graphsafe.Step:
    """Sound: the refresh keeps all inputs, of half a megabyte each."""
    kept: list[Tensor] = []

    def refresh(args: tuple[Tensor], kwargs: object, k: int) -> None:
        kept.append(torch.randn(2**17))
        args[0].copy_(kept[-1][:8])

    return graphsafe.Step(lambda x: x * 2, (_x(device),), refresh=refresh)


def build_several_kinds(device: torch.device) -> graphsafe.Step:
    """Sound: after many steps, the refresh writes names that the step does not use."""
    notes: dict[str, Any] = {"phase": "warm"}

    def refresh(args: tuple[Tensor], kwargs: object, k: int) -> None:
        args[0].copy_(torch.randn(8))
        if k > 1_400:
            notes["phase"] = "hot"
            notes["seen"] = k

    def step(x: Tensor) -> Tensor:
        return x * len(notes["phase"][:3])

    return graphsafe.Step(step, (_x(device),), refresh=refresh)
