"""Steps whose Python decides otherwise long after the capture, and sound twins of them."""

from __future__ import annotations

import contextvars
import datetime
import functools
import itertools
import os
import random
import resource
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import Any

import numpy
import torch

import graphsafe

Built = tuple[Any, tuple[Any, ...]]
_POSITION: contextvars.ContextVar[int] = contextvars.ContextVar("position", default=0)


def _x(device: torch.device) -> torch.Tensor:
    return torch.randn(8, device=device)


class Counter:
    def __init__(self, period: int) -> None:
        self.n = 0
        self.period = period

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        self.n += 1
        return x * 2 if self.n % self.period else x * 3


def build_counter(device: torch.device) -> Built:
    return Counter(64), (_x(device),)


def build_numpy_counter(device: torch.device) -> Built:
    count = numpy.zeros(1, dtype=numpy.int64)

    def step(x: torch.Tensor) -> torch.Tensor:
        count[0] += 1
        return torch.relu(x) if count[0] % 50 == 0 else torch.tanh(x)

    return step, (_x(device),)


@dataclass
class Schedule:
    done: int = 0

    def scale(self) -> float:
        self.done += 1
        return 1.0 if self.done < 40 else 0.5


def build_schedule(device: torch.device) -> Built:
    schedule = Schedule()
    return lambda x: x * schedule.scale(), (_x(device),)


def build_cycle(device: torch.device) -> Built:
    scales = itertools.cycle([1.0] * 30 + [2.0])
    return lambda x: x * next(scales), (_x(device),)


def build_generator(device: torch.device) -> Built:
    def scales() -> Any:
        yield from [1.0] * 20
        while True:
            yield 2.0

    running = scales()
    return lambda x: x * next(running), (_x(device),)


def build_context(device: torch.device) -> Built:
    def step(x: torch.Tensor) -> torch.Tensor:
        _POSITION.set(_POSITION.get() + 1)
        return x.sum() if _POSITION.get() > 45 else x.mean()

    return step, (_x(device),)


def build_coin(device: torch.device) -> Built:
    return lambda x: x * 2 if random.random() > 0.02 else x * 3, (_x(device),)


def build_rare_coin(device: torch.device) -> Built:
    return lambda x: x * 2 if random.random() >= 1e-9 else x * 3, (_x(device),)


def build_rare_numpy_coin(device: torch.device) -> Built:
    return lambda x: x * 2 if numpy.random.uniform() < 1 - 1e-9 else x * 3, (_x(device),)


def build_rare_own_coin(device: torch.device) -> Built:
    drawn = random.Random(3)
    return lambda x: x * 2 if drawn.random() >= 1e-9 else x * 3, (_x(device),)


def build_rare_in_refresh(device: torch.device) -> graphsafe.Step:
    scale = [2]

    def refresh(args: Any, kwargs: Any, k: int) -> None:
        args[0].copy_(torch.randn(8))
        scale[0] = 2 if random.random() < 1 - 1e-9 else 3

    return graphsafe.Step(lambda x: x.relu() if scale[0] == 2 else x.tanh(), (_x(device),), refresh=refresh)


def build_redrawn(device: torch.device) -> Built:
    """Sound: the host draws until the number fits, and the device does not depend on it."""

    def step(x: torch.Tensor) -> torch.Tensor:
        while not 0.1 < random.random() < 0.9:
            pass
        return x * 2

    return step, (_x(device),)


def build_until(device: torch.device) -> Built:
    until = monotonic() + 1_000
    return lambda x: x * 2 if monotonic() < until else x * 3, (_x(device),)


def build_injected_clock(device: torch.device) -> Built:
    class Warmed:
        def __init__(self) -> None:
            self.clock = time.time
            self.begun = self.clock()

        def __call__(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2 if self.clock() - self.begun < 600 else x * 3

    return Warmed(), (_x(device),)


def build_raw_clock(device: torch.device) -> Built:
    begun = time.clock_gettime(time.CLOCK_MONOTONIC)
    return lambda x: x + 1 if time.clock_gettime(time.CLOCK_MONOTONIC) - begun < 20 else x + 2, (_x(device),)


def build_cpu_usage(device: torch.device) -> Built:
    def used() -> float:
        return resource.getrusage(resource.RUSAGE_SELF).ru_utime

    begun = used()
    return lambda x: x + 1 if used() - begun < 600 else x + 2, (_x(device),)


def build_local_time(device: torch.device) -> Built:
    today = time.localtime().tm_yday
    return lambda x: x + 1 if time.localtime().tm_yday == today else x + 2, (_x(device),)


def build_day(device: torch.device) -> Built:
    today = datetime.date.today()
    return lambda x: x + 1 if datetime.date.today() == today else x + 2, (_x(device),)


@functools.lru_cache(maxsize=2)
def _table(length: int, device: torch.device) -> torch.Tensor:
    return torch.arange(length, device=device).cos()


def _looked_up(device: torch.device, others: tuple[int, ...]) -> graphsafe.Step:
    _table(8, device)

    def step(x: torch.Tensor) -> torch.Tensor:
        return x * _table(8, device)

    def refresh(args: Any, kwargs: Any, k: int) -> None:
        args[0].copy_(torch.randn(8))
        if k % 12 == 11:
            for length in others:
                _table(length, device)
            _table(8, device)

    return graphsafe.Step(step, (_x(device),), refresh=refresh)


def build_evicted(device: torch.device) -> graphsafe.Step:
    """A cache of two drops the table of eight when two others are asked for."""
    return _looked_up(device, (6, 7))


def build_kept(device: torch.device) -> graphsafe.Step:
    return _looked_up(device, (6,))


def _multiplied(device: torch.device, exact: int) -> graphsafe.Step:
    torch.backends.cuda.matmul.allow_tf32 = True
    weight = torch.randn(64, 64, device=device)

    def refresh(args: Any, kwargs: Any, k: int) -> None:
        torch.backends.cuda.matmul.allow_tf32 = k < exact
        args[0].copy_(torch.randn(64, 64))

    return graphsafe.Step(lambda x: x @ weight, (torch.randn(64, 64, device=device),), refresh=refresh)


def build_exact_later(device: torch.device) -> graphsafe.Step:
    """From the ninth step on, matrix products are exact."""
    return _multiplied(device, 9)


def build_never_exact(device: torch.device) -> graphsafe.Step:
    return _multiplied(device, 100_000_000)


def build_date(device: torch.device) -> Built:
    today = datetime.datetime.now().date()
    return lambda x: x + 1 if datetime.datetime.now().date() == today else x + 2, (_x(device),)


def build_swap(device: torch.device) -> Built:
    class Buffers:
        def __init__(self) -> None:
            self.front, self.back = torch.ones(8, device=device), torch.zeros(8, device=device)
            self.n = 0

        def __call__(self, x: torch.Tensor) -> torch.Tensor:
            self.n += 1
            if self.n % 32 == 0:
                self.front, self.back = self.back, self.front
            return x + self.front

    return Buffers(), (_x(device),)


def build_logged(device: torch.device) -> Built:
    """Sound: counters, timings and a log decide nothing."""

    class Logged:
        def __init__(self) -> None:
            self.n, self.log, self.spent = 0, deque(maxlen=16), 0.0

        def __call__(self, x: torch.Tensor) -> torch.Tensor:
            begun = time.perf_counter()
            self.n += 1
            y = torch.relu(x) * 2
            self.log.append(self.n)
            self.spent += time.perf_counter() - begun
            return y

    return Logged(), (_x(device),)


def build_ring(device: torch.device) -> Built:
    """Sound: a position on the device walks through a buffer that is shorter than the horizon."""
    ring = torch.zeros(16, 8, device=device)
    position = torch.zeros(1, dtype=torch.int64, device=device)

    def step(x: torch.Tensor) -> torch.Tensor:
        ring.index_copy_(0, position, x[None])
        position.add_(1).remainder_(16)
        return ring.sum(0)

    return step, (_x(device),)


def build_dropout(device: torch.device) -> Built:
    """Sound: random numbers of the device."""
    layer = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(0.5)).to(device)
    return layer, (_x(device),)


class Adapter:
    def __init__(self, device: torch.device) -> None:
        self.delta, self.version = torch.randn(8, 8, device=device), 0

    def load(self, k: int) -> None:
        self.delta.fill_(float(k))
        self.version += 1


class Merged:
    def __init__(self, device: torch.device) -> None:
        self.weight, self.merged, self.at = torch.randn(8, 8, device=device), None, -1

    def __call__(self, x: torch.Tensor, adapter: Adapter) -> torch.Tensor:
        if self.at != adapter.version:
            self.merged, self.at = self.weight + 0.5 * adapter.delta, adapter.version
        return x @ self.merged


def build_reloaded(device: torch.device) -> Built:
    """The refresh loads other weights in every twelfth round, and the host merges them anew."""

    def refresh(args: tuple[torch.Tensor, Adapter], kwargs: object, k: int) -> None:
        args[0].copy_(torch.randn(8, generator=torch.Generator().manual_seed(k)))
        if k % 12 == 11:
            args[1].load(k)

    return graphsafe.Step(Merged(device), (_x(device), Adapter(device)), refresh=refresh)


def build_alternating(device: torch.device) -> Built:
    """The refresh swaps what it adds to the weight, and keeps what it added in a list of its own."""
    weight = torch.randn(8, 8, device=device)
    deltas = [torch.randn(8, 8, device=device) for _ in range(2)]
    added: list[torch.Tensor] = []

    def refresh(args: tuple[torch.Tensor], kwargs: object, k: int) -> None:
        args[0].copy_(torch.randn(8, generator=torch.Generator().manual_seed(k)))
        if added:
            weight.sub_(added.pop())
        added.append(deltas[k % 2])
        weight.add_(added[0])

    return graphsafe.Step(lambda x: x @ weight, (_x(device),), refresh=refresh)


def build_transposed(device: torch.device) -> Built:
    """The refresh gives a square weight other strides in every twelfth round: its address and shape stay."""
    weight = torch.randn(8, 8, device=device)

    def refresh(args: tuple[torch.Tensor], kwargs: object, k: int) -> None:
        args[0].copy_(torch.randn(8, generator=torch.Generator().manual_seed(k)))
        if k % 12 == 11:
            weight.t_()

    return graphsafe.Step(lambda x: weight @ x, (_x(device),), refresh=refresh)


class Staging:
    def __init__(self, device: torch.device) -> None:
        self.host = torch.ones(8).pin_memory() if device.type == "cuda" else torch.ones(8)
        self.knobs = torch.ones(8, device=device)
        self.calls = 0


def build_packed(device: torch.device) -> Built:
    """The step itself writes the host memory from which it copies, in every 23rd round."""
    staging = Staging(device)
    bytes_of_host = memoryview(staging.host.numpy())

    def step(x: torch.Tensor) -> torch.Tensor:
        staging.calls += 1
        if staging.calls % 23 == 0:
            bytes_of_host[0] = float(staging.calls)
        staging.knobs.copy_(staging.host, non_blocking=True)
        return x * staging.knobs

    return step, (_x(device),)


def build_packed_outside(device: torch.device) -> Built:
    """Sound: the refresh writes that memory, between steps."""
    staging = Staging(device)

    def refresh(args: tuple[torch.Tensor], kwargs: object, k: int) -> None:
        args[0].copy_(torch.randn(8, generator=torch.Generator().manual_seed(k)))
        staging.host[k % 8] = float(k)

    def step(x: torch.Tensor) -> torch.Tensor:
        staging.knobs.copy_(staging.host, non_blocking=True)
        return x * staging.knobs

    return graphsafe.Step(step, (_x(device),), refresh=refresh)


def build_grown_base(device: torch.device) -> Built:
    """Sound: the refresh makes the tensor that the step takes a part of larger, within its memory; the part stays."""
    rows = torch.randn(64, 8, device=device)
    rows.resize_(16, 8)

    def refresh(args: tuple[torch.Tensor], kwargs: object, k: int) -> None:
        args[0].copy_(torch.randn(8, generator=torch.Generator().manual_seed(k)))
        rows.resize_(32 if k % 12 == 11 else 16, 8)

    return graphsafe.Step(lambda x: rows[:4] @ x, (_x(device),), refresh=refresh)


def build_clock_in_closure(device: torch.device) -> Built:
    clock = time.perf_counter
    until = clock() + 1_000
    return lambda x: x * 2 if clock() < until else x * 3, (_x(device),)


def build_clock_by_default(device: torch.device) -> Built:
    until = time.monotonic() + 1_000

    def is_late(clock: Any = time.monotonic) -> bool:
        return bool(clock() > until)

    return lambda x: x * 3 if is_late() else x * 2, (_x(device),)


def build_stamp(device: torch.device) -> Built:
    until = numpy.datetime64("now") + numpy.timedelta64(1_000, "s")
    return lambda x: x * 2 if numpy.datetime64("now") < until else x * 3, (_x(device),)


def build_day_text(device: torch.device) -> Built:
    today = time.strftime("%Y-%m-%d")
    return lambda x: x * 2 if time.strftime("%Y-%m-%d") == today else x * 3, (_x(device),)


def build_other_random_state(device: torch.device) -> Built:
    """The refresh gives the device's default generator the state of another generator in every twelfth round."""
    generator = torch.cuda.default_generators[device.index or 0]
    own, other = generator.graphsafe_get_state(), torch.Generator(device=device).graphsafe_get_state()

    def refresh(args: tuple[torch.Tensor], kwargs: object, k: int) -> None:
        args[0].copy_(torch.randn(8, generator=torch.Generator().manual_seed(k)))
        generator.graphsafe_set_state(other if k % 12 == 11 else own)

    return graphsafe.Step(lambda x: x + torch.randn_like(x), (_x(device),), refresh=refresh)


def build_settings_file(device: torch.device) -> Built:
    """Each step reads a file that somebody may edit."""

    def step(x: torch.Tensor) -> torch.Tensor:
        with open(__file__.replace("later.py", "settings.txt"), encoding="ascii") as file:
            return x * float(file.read())

    return step, (_x(device),)


def build_uptime(device: torch.device) -> Built:
    """A file of the system decides, which changes by itself and cannot be changed here."""

    def up() -> float:
        with open("/proc/uptime", encoding="ascii") as file:
            return float(file.read().split()[0])

    until = up() + 1_000
    return lambda x: x * 2 if up() < until else x * 3, (_x(device),)


def _by_file(device: torch.device, ask: Callable[[str], object], decides: bool) -> Built:
    """Each step asks for a file. The answer decides what it computes, or is only noted."""
    notes, name = [0], os.path.join(tempfile.gettempdir(), "graphsafe-brake")

    def step(x: torch.Tensor) -> torch.Tensor:
        answer = ask(name)
        notes[0] += bool(answer)
        return x * 2 if answer and decides else x * 3

    return step, (_x(device),)


def build_brake(device: torch.device) -> Built:
    return _by_file(device, os.path.exists, decides=True)


def build_brake_noted(device: torch.device) -> Built:
    return _by_file(device, os.path.exists, decides=False)


def build_touched(device: torch.device) -> Built:
    return _by_file(device, lambda name: os.stat(os.path.dirname(name)).st_mtime > time.time() + 60, decides=True)


def build_requests(device: torch.device) -> Built:
    return _by_file(device, lambda name: "0" in os.listdir(os.path.dirname(name)), decides=True)


def build_pages_noted(device: torch.device) -> Built:
    def pages(name: str) -> float:
        with open("/proc/self/statm", encoding="ascii") as file:
            return float(file.read().split()[1])

    return _by_file(device, pages, decides=False)


def _counted(device: torch.device, rate: Any, change: Callable[[Any], Any], checks: bool) -> graphsafe.Step:
    """The loop reads a count of the device. At forty it changes a rate, or it only checks that the count grows."""
    count, held, seen = torch.zeros((), dtype=torch.long, device=device), {"rate": rate}, [-1]

    def step(x: torch.Tensor) -> torch.Tensor:
        count.add_(1)
        return x * held["rate"]

    def refresh(args: tuple[torch.Tensor], kwargs: object, k: int) -> None:
        args[0].copy_(torch.randn(8))
        if checks and int(count) <= seen[0]:
            raise RuntimeError("the last replay did not run")
        seen[0] = int(count)
        if seen[0] >= 40:
            held["rate"] = change(held["rate"])

    return graphsafe.Step(step, (_x(device),), refresh=refresh)


def build_halved_by_count(device: torch.device) -> graphsafe.Step:
    return _counted(device, 0.5, lambda rate: 0.25, checks=False)


def build_filled_by_count(device: torch.device) -> graphsafe.Step:
    return _counted(device, torch.tensor(0.5, device=device), lambda rate: rate.fill_(0.25), checks=False)


def build_halved_beside_check(device: torch.device) -> graphsafe.Step:
    return _counted(device, 0.5, lambda rate: 0.25, checks=True)


def build_filled_beside_check(device: torch.device) -> graphsafe.Step:
    return _counted(device, torch.tensor(0.5, device=device), lambda rate: rate.fill_(0.25), checks=True)


class _Polled:
    """A thread waits for ten seconds, again and again, and takes the next setting."""

    def __init__(self, wait: Callable[[float], object]) -> None:
        self.scale, self.wait = 1.0, wait
        threading.Thread(target=self.poll, daemon=True).start()

    def poll(self) -> None:
        while True:
            self.wait(10.0)
            self.scale *= 0.5


def build_polled(device: torch.device) -> Built:
    settings = _Polled(lambda seconds: time.sleep(seconds))
    return lambda x: x * settings.scale, (_x(device),)


def build_polled_by_event(device: torch.device) -> Built:
    settings = _Polled(threading.Event().wait)
    return lambda x: x * settings.scale, (_x(device),)


def build_polled_in_tensor(device: torch.device) -> graphsafe.Step:
    settings, scale = _Polled(lambda seconds: time.sleep(seconds)), torch.ones((), device=device)

    def refresh(args: tuple[torch.Tensor], kwargs: object, k: int) -> None:
        args[0].copy_(torch.randn(8))
        scale.fill_(settings.scale)

    return graphsafe.Step(lambda x: x * scale, (_x(device),), refresh=refresh)


def build_timer(device: torch.device) -> Built:
    """A timer of ten minutes decides."""
    over = threading.Event()
    timer = threading.Timer(600.0, over.set)
    timer.daemon = True
    timer.start()
    return lambda x: x * 3 if over.is_set() else x * 2, (_x(device),)


class _Penalties:
    """Divides by penalties, which an eager step leaves out if all of them are one."""

    def __init__(self, device: torch.device) -> None:
        self.values, self.any = torch.ones(8, device=device), True

    def set(self, k: int, row: int) -> None:
        self.values[row].fill_(1.5 if k % 9 == 0 else 1.0)
        self.any = k % 9 == 0

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return x / self.values if self.any else x


def build_neutral(device: torch.device) -> graphsafe.Step:
    """Sound: the captured path serves also for steps without penalties."""
    step = _Penalties(device)

    def refresh(args: Any, kwargs: Any, k: int) -> None:
        step.set(k, 3)
        args[0].copy_(torch.randn(8))

    return graphsafe.Step(step, (_x(device),), refresh=refresh)


def build_neutral_until(device: torch.device) -> graphsafe.Step:
    """From the 400th refresh on, steps without the flag compute something else. No round on this path was compared."""
    step = _Penalties(device)

    def forward(x: torch.Tensor) -> torch.Tensor:
        return step(x) if refreshed[0] < 400 else x + 1

    def refresh(args: Any, kwargs: Any, k: int) -> None:
        refreshed[0] = k
        step.set(k, 3)
        args[0].copy_(torch.randn(8))

    refreshed = [0]
    return graphsafe.Step(forward, (_x(device),), refresh=refresh)


def build_held(device: torch.device) -> graphsafe.Step:
    """For some steps, a copy of the weight is held while the refresh changes the weight."""
    weight, held = torch.ones(8, device=device), list[torch.Tensor]()

    def refresh(args: Any, kwargs: Any, k: int) -> None:
        args[0].copy_(torch.randn(8))
        weight.mul_(0.98)
        held[:] = (held or [weight.clone()]) if 20 <= k < 50 else []

    def step(x: torch.Tensor) -> torch.Tensor:
        return x * held[0] if held else x * weight.abs()

    return graphsafe.Step(step, (_x(device),), refresh=refresh)


def build_seldom(device: torch.device) -> graphsafe.Step:
    """Sound: only each twentieth refresh changes the data."""
    x = _x(device)

    def refresh(args: Any, kwargs: Any, k: int) -> None:
        if k % 20 == 0:
            args[0].copy_(torch.randn(8))

    return graphsafe.Step(lambda x: x * 2, (x,), refresh=refresh)


class _Slotted:
    __slots__ = ("clock", "until")

    def __init__(self) -> None:
        self.clock = time.monotonic
        self.until = self.clock() + 1_000


def build_slotted_clock(device: torch.device) -> Built:
    slotted = _Slotted()
    return lambda x: x * 2 if slotted.clock() < slotted.until else x * 3, (_x(device),)


def build_stored_now(device: torch.device) -> Built:
    now = datetime.datetime.now
    until = now() + datetime.timedelta(minutes=20)
    return lambda x: x * 2 if now() < until else x * 3, (_x(device),)


def build_night(device: torch.device) -> Built:
    """The hour decides, and a day and an hour later it is not yet night."""
    begun = datetime.datetime.now().hour
    return lambda x: x * 3 if 4 <= (datetime.datetime.now().hour - begun) % 24 < 12 else x * 2, (_x(device),)


def build_half_hours(device: torch.device) -> Built:
    """Every half hour the other branch, so that nothing changes in whole hours."""
    begun = time.time()
    return lambda x: x * 2 if (time.time() - begun) % 3_600 < 1_800 else x * 3, (_x(device),)


def _filling(device: torch.device, seconds: float) -> Built:
    """A cache is full after some steps, and the step then refuses."""
    used, until = [0], time.monotonic() + seconds

    def step(x: torch.Tensor) -> torch.Tensor:
        if used[0] == 40:
            raise RuntimeError("the cache is full")
        used[0] += 1
        return x * 2 if time.monotonic() < until else x * 3

    return step, (_x(device),)


def build_full_before_clock(device: torch.device) -> Built:
    return _filling(device, 1_000.0)


def build_full(device: torch.device) -> Built:
    """Sound: the time comes in no test."""
    return _filling(device, 1e12)
