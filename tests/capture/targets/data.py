"""Steps whose loop reads data: from a read-only file, from an iterator that comes to its end, from random numbers that
nothing seeds. In the faulty twins, Python reads what a replay does not."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

import numpy as np
import torch

import graphsafe

_REQUEST: ContextVar[int] = ContextVar("request")


class Reader:
    """Reads batches of a read-only table again and again."""

    def __init__(self) -> None:
        self.table = np.frombuffer(bytes(range(24)), dtype=np.uint8).reshape(3, 8)
        self.rest: Iterator[int] = iter(range(3))
        self.row = 0

    def take(self) -> torch.Tensor:
        row = next(self.rest, None)
        if row is None:
            self.rest = iter([0, 1, 2])
            row = next(self.rest)
        self.row = row
        return torch.from_numpy(self.table[row].astype(np.float32))


def build_read(device: torch.device) -> graphsafe.Step:
    """The loop copies each batch into place, and sets a variable that only a log reads."""
    return _of_reader(device, lambda x, row, request: x * 2)


def build_read_by_step(device: torch.device) -> graphsafe.Step:
    """The step itself reads the number of the row."""
    return _of_reader(device, lambda x, row, request: x * (2 + row))


def build_read_with_request(device: torch.device) -> graphsafe.Step:
    """The step itself reads the variable."""
    return _of_reader(device, lambda x, row, request: x * (2 + request))


def build_first_request(device: torch.device) -> graphsafe.Step:
    """Step 1 computes a plan from its inputs, and keeps it in a variable that cannot be unset again."""
    plan: ContextVar[torch.Tensor] = ContextVar("plan")

    def step(x: torch.Tensor) -> torch.Tensor:
        if plan.get(None) is None:
            plan.set(x.sum())
        return x * plan.get()

    step.plan = plan  # type: ignore[attr-defined]
    return graphsafe.Step(step, (torch.randn(8, device=device),))


def _of_reader(device: torch.device, result: Callable[[torch.Tensor, int, int], torch.Tensor]) -> graphsafe.Step:
    reader = Reader()

    def step(x: torch.Tensor) -> torch.Tensor:
        return result(x, reader.row, _REQUEST.get(0))

    def refresh(args: tuple[torch.Tensor], kwargs: object, k: int) -> None:
        _REQUEST.set(k)
        args[0].copy_(reader.take())

    return graphsafe.Step(step, (torch.randn(8, device=device),), refresh=refresh)


def _points(rng: Any) -> torch.Tensor:
    return torch.from_numpy(rng.normal(size=(40, 8)).astype(np.float32))


def build_made_unseeded(device: torch.device) -> graphsafe.Step:
    """The loop draws rows of data that a generator without a seed has made."""
    data = _points(np.random.default_rng())
    rows = torch.zeros(8, device=device)

    def refresh(args: tuple[torch.Tensor], kwargs: object, k: int) -> None:
        args[0].copy_(data[k % 40])

    return graphsafe.Step(lambda x: x * 2, (rows,), refresh=refresh)


def build_made_unseeded_and_kept(device: torch.device) -> graphsafe.Step:
    """The step reads the rows on the host."""
    data, row = _points(np.random.default_rng()), [0]
    scale = torch.ones(8, device=device)

    def refresh(args: tuple[torch.Tensor], kwargs: object, k: int) -> None:
        args[0].fill_(k)
        row[0] = k % 40

    return graphsafe.Step(lambda x: x * float(data[row[0], 0]), (scale,), refresh=refresh)


def build_drawn_unseeded(device: torch.device) -> graphsafe.Step:
    """The loop draws from a new generator each time."""

    def refresh(args: tuple[torch.Tensor], kwargs: object, k: int) -> None:
        args[0].copy_(_points(np.random.default_rng())[0])

    return graphsafe.Step(lambda x: x * 2, (torch.zeros(8, device=device),), refresh=refresh)


def build_drawn_unseeded_by_step(device: torch.device) -> graphsafe.Step:
    """The step draws from a new generator each time."""

    def refresh(args: tuple[torch.Tensor], kwargs: object, k: int) -> None:
        args[0].fill_(k)

    def step(x: torch.Tensor) -> torch.Tensor:
        return x * float(np.random.default_rng().normal())

    return graphsafe.Step(step, (torch.zeros(8, device=device),), refresh=refresh)


def build_seeded_by_clock(device: torch.device) -> graphsafe.Step:
    """The loop draws rows of data that differ in each process, whatever is seeded."""
    data = torch.randn(40, 8, generator=torch.Generator().manual_seed(time.time_ns()))

    def refresh(args: tuple[torch.Tensor], kwargs: object, k: int) -> None:
        args[0].copy_(data[k % 40])

    return graphsafe.Step(lambda x: x * 2, (torch.zeros(8, device=device),), refresh=refresh)
