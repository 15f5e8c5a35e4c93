"""Steps in which a counter on the host decides after more steps than capture runs, and sound twins of them."""

from __future__ import annotations

import argparse
import dataclasses
import datetime
from decimal import Decimal
from typing import Any

import numpy
import torch
from torch import Tensor, nn

import graphsafe


class Counting:
    """Counts its steps in `n`; the subclasses compute."""

    def __init__(self, every: int = 5_000) -> None:
        self.n = 0
        self.every = every

    def __call__(self, x: Tensor) -> Tensor:
        self.n += 1
        return self.compute(x)

    def compute(self, x: Tensor) -> Tensor:
        raise NotImplementedError


def _step(device: torch.device, step: Any, refresh: Any = None) -> graphsafe.Step:
    def usual(args: tuple[Tensor], kwargs: object, k: int) -> None:
        args[0].copy_(torch.randn(8))

    return graphsafe.Step(step, (torch.randn(8, device=device),), refresh=refresh or usual)


class Every(Counting):
    def compute(self, x: Tensor) -> Tensor:
        if self.n % self.every == 0:
            return x * 3
        return x * 2


def build_every(device: torch.device) -> graphsafe.Step:
    return _step(device, Every())


def build_without_refresh(device: torch.device) -> Any:
    return Every(), (torch.randn(8, device=device),)


class Constant(Counting):
    def compute(self, x: Tensor) -> Tensor:
        return x.relu() if self.n > 1_500 * 2 else x.tanh()


def build_constant(device: torch.device) -> graphsafe.Step:
    return _step(device, Constant())


class Countdown:
    def __init__(self) -> None:
        self.left = 4_000

    def __call__(self, x: Tensor) -> Tensor:
        self.left -= 1
        return x + 1 if self.left > 0 else x


def build_countdown(device: torch.device) -> graphsafe.Step:
    return _step(device, Countdown())


class Tokens(Counting):
    """Counts tokens, several in each step."""

    def __call__(self, x: Tensor) -> Tensor:
        self.n += x.numel()
        return x.relu() if self.n >= 20_001 else x.tanh()


def build_tokens(device: torch.device) -> graphsafe.Step:
    return _step(device, Tokens())


def build_scheduler(device: torch.device) -> graphsafe.Step:
    model = nn.Linear(8, 8).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[2_000, 6_000])

    def step(x: Tensor) -> Tensor:
        optimizer.zero_grad(set_to_none=True)
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        scheduler.step()
        return loss.detach()

    return _step(device, step)


class ByDefault(Counting):
    def compute(self, x: Tensor, start: int = 2_000) -> Tensor:
        return x.relu() if self.n >= start else x.tanh()


def build_by_default(device: torch.device) -> graphsafe.Step:
    return _step(device, ByDefault())


class Share(Counting):
    """Decides by the share of the steps that are done, which only a division tells."""

    def compute(self, x: Tensor) -> Tensor:
        return x * 3 if self.n / 20_000 >= 0.3 else x * 2


def build_share(device: torch.device) -> graphsafe.Step:
    return _step(device, Share())


class Sum(Counting):
    """Decides by the sum of two counters, before its position comes to the end of a cache."""

    prompt = 1_000

    def compute(self, x: Tensor) -> Tensor:
        if self.n > 8_000:
            raise IndexError("the cache is full")
        return x * 3 if self.prompt + self.n > 4_096 else x * 2


def build_sum(device: torch.device) -> graphsafe.Step:
    return _step(device, Sum())


class Lengths:
    """Keeps the lengths of its sequences on the host, as engines do; the loop advances them."""

    def __init__(self, lengths: Any) -> None:
        self.lengths = lengths

    def __call__(self, x: Tensor) -> Tensor:
        return x * 3 if self.lengths.max() > 2_048 else x * 2

    def refresh(self, args: tuple[Tensor], kwargs: object, k: int) -> None:
        self.lengths += 1
        args[0].copy_(torch.randn(8))


def build_array_of_lengths(device: torch.device) -> graphsafe.Step:
    step = Lengths(numpy.array([20, 7, 31], dtype=numpy.int32))
    return _step(device, step, step.refresh)


def build_lengths_on_host(device: torch.device) -> graphsafe.Step:
    step = Lengths(torch.tensor([20, 7, 31]))
    return _step(device, step, step.refresh)


# Sound steps


class Requests(Lengths):
    """A sequence that has 1,500 tokens leaves, and another one takes its place."""

    def refresh(self, args: tuple[Tensor], kwargs: object, k: int) -> None:
        super().refresh(args, kwargs, k)
        self.lengths[self.lengths >= 1_500] = 1


def build_requests(device: torch.device) -> graphsafe.Step:
    step = Requests(numpy.array([20, 7, 31], dtype=numpy.int32))
    return _step(device, step, step.refresh)


class SameWork(Counting):
    """Takes two branches that compute the same."""

    def compute(self, x: Tensor) -> Tensor:
        if self.n % self.every == 0:
            return x * 2
        return x * 2


def build_same_work(device: torch.device) -> graphsafe.Step:
    return _step(device, SameWork())


class Logged(Counting):
    def __init__(self) -> None:
        super().__init__()
        self.log: list[str] = []

    def compute(self, x: Tensor) -> Tensor:
        if self.n % 2_000 == 0:
            self.log.append(f"step {self.n}")
        return x * 2


def build_logged(device: torch.device) -> graphsafe.Step:
    return _step(device, Logged())


def build_set_back_by_refresh(device: torch.device) -> graphsafe.Step:
    """The refresh sets the counter back before it decides."""
    step = Every()

    def refresh(args: tuple[Tensor], kwargs: object, k: int) -> None:
        if step.n >= 3_000:
            step.n = 0
        args[0].copy_(torch.randn(8))

    return _step(device, step, refresh)


def build_set_back_each_epoch(device: torch.device) -> graphsafe.Step:
    """The refresh sets the counter back at every 2000th step, by its own number."""
    step = Every()

    def refresh(args: tuple[Tensor], kwargs: object, k: int) -> None:
        if k % 2_000 == 0:
            step.n = 0
        args[0].copy_(torch.randn(8))

    return _step(device, step, refresh)


class Gated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(8, 8), nn.Linear(8, 8)
        self.is_late = False

    def forward(self, x: Tensor) -> Tensor:
        y = self.first(x)
        return self.last(y).relu() if self.is_late else self.last(y)


def build_number_of_refresh(device: torch.device) -> graphsafe.Step:
    """The refresh decides by its own number. Nothing else counts."""
    net = Gated().to(device)

    def refresh(args: tuple[Tensor], kwargs: object, k: int) -> None:
        net.is_late = k >= 3_000
        args[0].copy_(torch.randn(8))

    return _step(device, net, refresh)


def build_rows_by_number(device: torch.device) -> graphsafe.Step:
    """Sound: the refresh takes other data by its own number, and has only some rows."""
    net, rows = Gated().to(device), torch.randn(4_096, 8)

    def refresh(args: tuple[Tensor], kwargs: object, k: int) -> None:
        args[0].copy_(rows[k] if k < 3_000 else rows[k] * 2)

    return _step(device, net, refresh)


def build_set_back_by_reset(device: torch.device) -> graphsafe.Step:
    step = Every()

    def reset() -> None:
        step.n = 0

    def refresh(args: tuple[Tensor], kwargs: object, k: int) -> None:
        args[0].copy_(torch.randn(8))

    return graphsafe.Step(step, (torch.randn(8, device=device),), refresh=refresh, reset=reset)


class Full(Counting):
    """A position that ends at the length of a cache; a step beyond it would compute something else."""

    def compute(self, x: Tensor) -> Tensor:
        if self.n > 3_000:
            raise IndexError("the cache is full")
        return x * 3 if self.n >= self.every else x * 2


def build_full(device: torch.device) -> graphsafe.Step:
    return _step(device, Full())


class Wrapping(Counting):
    """The step itself sets the counter back before it decides."""

    def compute(self, x: Tensor) -> Tensor:
        self.n = 0 if self.n == 3_000 else self.n
        return x * 3 if self.n >= self.every else x * 2


def build_wrapping(device: torch.device) -> graphsafe.Step:
    return _step(device, Wrapping())


class Paired(Counting):
    """Would refill only if two counters differed, or if a list had another length than the count."""

    def __init__(self) -> None:
        super().__init__()
        self.m = 0
        self.seen: list[int] = []

    def compute(self, x: Tensor) -> Tensor:
        self.m += 1
        self.seen.append(self.n)
        return x * 2 if self.n == self.m and len(self.seen) == self.n else x * 3


def build_paired(device: torch.device) -> graphsafe.Step:
    return _step(device, Paired())


def build_long_schedule(device: torch.device) -> graphsafe.Step:
    """The refresh writes a long schedule into a tensor on the device."""
    rate = torch.ones((), device=device)
    count = {"n": 0}

    def step(x: Tensor) -> Tensor:
        return x * rate

    def refresh(args: tuple[Tensor], kwargs: object, k: int) -> None:
        count["n"] += 1
        rate.fill_(1.0 if count["n"] < 3_000 else 0.1)
        args[0].copy_(torch.randn(8))

    return _step(device, step, refresh)


class Simulated:
    """Integrates until a time that 3,000 steps of `dt` reach; then it only damps."""

    def __init__(self) -> None:
        self.t, self.dt = 0.0, 0.01

    def __call__(self, x: Tensor) -> Tensor:
        self.t += self.dt
        return x.relu() if self.t > 30 else x.tanh()


def build_simulated(device: torch.device) -> graphsafe.Step:
    return _step(device, Simulated())


class Timed(Simulated):
    """Its time decides nothing that the device sees."""

    phase = "early"

    def __call__(self, x: Tensor) -> Tensor:
        self.t += self.dt
        if self.t > 30.0:
            self.phase = "late"
        return x.tanh()


def build_timed(device: torch.device) -> graphsafe.Step:
    return _step(device, Timed())


class Counted(torch.nn.Module):
    updates = 0  # each step gives the object an attribute of this name

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.updates += 1
        return x + 1 if self.updates % 3_000 == 0 else x * 2


def build_class_default(device: torch.device) -> Any:
    return Counted(), (torch.randn(8, device=device),)


@dataclasses.dataclass
class Counter:
    updates: int = 0

    def step(self, x: torch.Tensor) -> torch.Tensor:
        self.updates += 1
        return x + 1 if self.updates % 3_000 == 0 else x * 2


def build_dataclass_default(device: torch.device) -> Any:
    return Counter().step, (torch.randn(8, device=device),)


class Stateful(torch.nn.Module):
    """Keeps state of one kind, which changes in each step."""

    def __init__(self, state: Any, change: Any, ends: Any = lambda state: False) -> None:
        super().__init__()
        self.state, self.change, self.ends = state, change, ends

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.state = self.change(self.state)
        return x + 1 if self.ends(self.state) else x * 2


def build_numpy_number(device: torch.device) -> Any:
    return Stateful(numpy.int64(0), lambda n: n + 1, lambda n: n % 3_000 == 0), (torch.randn(8, device=device),)


def build_parsed_arguments(device: torch.device) -> Any:
    arguments = argparse.Namespace(step=0, warm_up=3_000)

    def step(x: torch.Tensor) -> torch.Tensor:
        arguments.step += 1
        return x + 1 if arguments.step >= arguments.warm_up else x * 2

    return step, (torch.randn(8, device=device),)


def build_losses(device: torch.device) -> Any:
    """Stops to train a part when it has seen enough losses."""
    return Stateful([], _appended, lambda losses: len(losses) >= 2_000), (torch.randn(8, device=device),)


def _appended(losses: list[float]) -> list[float]:
    losses.append(0.5)
    return losses


def build_recent(device: torch.device) -> Any:
    """Keeps only the last losses."""
    return Stateful([], lambda losses: _appended(losses)[-1_500:], lambda losses: len(losses) >= 2_000), (
        torch.randn(8, device=device),
    )


def build_epochs(device: torch.device) -> Any:
    """Only every 300th step changes the epoch, the tenth epoch changes the step."""
    batches = {"n": 0}

    def change(state: float) -> float:
        batches["n"] += 1
        return state + 0.5 if batches["n"] % 300 == 0 else state

    return Stateful(0.0, change, lambda epoch: epoch >= 5), (torch.randn(8, device=device),)


def build_history(device: torch.device) -> Any:
    return Stateful([], lambda history: [*history, 1.0]), (torch.randn(8, device=device),)


def build_text(device: torch.device) -> Any:
    return Stateful("", lambda text: text + "x"), (torch.randn(8, device=device),)


def build_array(device: torch.device) -> Any:
    return Stateful(numpy.zeros(2), lambda values: values + 1), (torch.randn(8, device=device),)


def build_time(device: torch.device) -> Any:
    first, second = datetime.datetime(2026, 1, 1), datetime.timedelta(seconds=1)
    return Stateful(first, lambda time: time + second), (torch.randn(8, device=device),)


def build_decimal(device: torch.device) -> Any:
    return Stateful(Decimal(0), lambda total: total + Decimal("0.1")), (torch.randn(8, device=device),)
