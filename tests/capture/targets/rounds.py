"""Steps with a refresh that does something else only in later rounds, and sound twins of them."""

from __future__ import annotations

import fcntl
import functools
import gc
import heapq
import os
import tempfile
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any
from weakref import WeakKeyDictionary, proxy

import torch

import graphsafe

Refresh = Callable[[Any, object, int], None]


def _step(fn: Any, device: torch.device, between: Callable[[int], None]) -> graphsafe.Step:
    def refresh(args: tuple[torch.Tensor], kwargs: object, k: int) -> None:
        args[0].copy_(torch.randn(8))
        between(k)

    return graphsafe.Step(fn, (torch.randn(8, device=device),), refresh=refresh)


class Pages:
    """A page table. The loop asks for the next page by a count that the step's Python keeps, or by one of its own."""

    def __init__(self, device: torch.device, counted_by_step: bool) -> None:
        self.table = torch.ones(4, device=device)
        self.free = deque(range(16))
        self.counted_by_step, self.length = counted_by_step, 0

    def step(self, x: torch.Tensor) -> torch.Tensor:
        self.length += self.counted_by_step
        return x * self.table.sum()

    def between(self, k: int) -> None:
        self.length += not self.counted_by_step
        if self.length % 11 == 0:
            self.table[self.length // 11 % 4].fill_(self.free[0])
            self.free.rotate(-1)


def build_pages_counted_by_step(device: torch.device) -> graphsafe.Step:
    pages = Pages(device, counted_by_step=True)
    return _step(pages.step, device, pages.between)


def build_pages_counted_by_loop(device: torch.device) -> graphsafe.Step:
    pages = Pages(device, counted_by_step=False)
    return _step(pages.step, device, pages.between)


def build_hooked(device: torch.device) -> graphsafe.Step:
    """A hook counts the optimizer's steps, and the loop averages the weights at every tenth."""
    weight = torch.nn.Parameter(torch.randn(8, device=device))
    average, counts = weight.detach().clone(), deque([0])
    optimizer = torch.optim.SGD([weight], lr=0.1)
    optimizer.register_step_post_hook(lambda *_: counts.append(counts.pop() + 1))

    def step(x: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad(set_to_none=False)
        loss = (x - weight).square().sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    @torch.no_grad()
    def between(k: int) -> None:
        if counts[0] % 10 == 0:
            average.lerp_(weight, 0.5)
            weight.copy_(average)

    return _step(step, device, between)


def build_history(device: torch.device) -> graphsafe.Step:
    """The loop keeps copies of the last two results, and feeds them back."""
    out = torch.zeros(8, device=device)
    history = deque([out.clone(), out.clone()], maxlen=2)
    fed = torch.zeros(8, device=device)

    def step(x: torch.Tensor) -> torch.Tensor:
        return out.copy_(torch.tanh(x + fed))

    def between(k: int) -> None:
        history.append(out.clone())
        fed.copy_(history[1] - history[0])

    return _step(step, device, between)


def build_few_batches(device: torch.device) -> graphsafe.Step:
    """The data ends after 20 rounds."""
    batches = torch.randn(20, 8)

    def between(k: int) -> None:
        weight.copy_(batches[k])

    weight = torch.randn(8, device=device)
    return _step(lambda x: x * weight, device, between)


def build_resized(device: torch.device) -> graphsafe.Step:
    """The refresh makes a table longer within its memory, and the step reads its first rows."""
    rows = torch.zeros(64, 8, device=device)
    rows.resize_(4, 8)

    def between(k: int) -> None:
        if k % 10 == 9 and len(rows) < 64:
            rows.resize_(2 * len(rows), 8)
        rows[k % 4].fill_(k)

    return _step(lambda x: x + rows[:4].sum(0), device, between)


def build_worn_out(device: torch.device) -> graphsafe.Step:
    """The loop takes a slot that the step's Python has put back, which replays do not do."""
    slots = deque(range(12))
    taken: deque[int] = deque()
    weight = torch.randn(16, device=device)

    def step(x: torch.Tensor) -> torch.Tensor:
        if taken:
            slots.append(taken.popleft())
        return x * weight[0]

    def between(k: int) -> None:
        taken.append(slots.popleft())
        weight[0].copy_(torch.randn(()))

    return _step(step, device, between)


def build_guarded_upkeep(device: torch.device) -> graphsafe.Step:
    """Every twentieth step rescales the weight, unless it is captured."""
    weight, calls = torch.ones(8, device=device), deque([0])

    def step(x: torch.Tensor) -> torch.Tensor:
        calls.append(calls.pop() + 1)
        if not torch.cuda.is_current_stream_capturing() and calls[0] % 20 == 0:
            weight.mul_(0.5)
        return x * weight

    return _step(step, device, lambda k: None)


_note: ContextVar[torch.Tensor] = ContextVar("note")


def build_noted_late(device: torch.device) -> graphsafe.Step:
    """The step keeps its hidden state in a context variable; the loop reads it once, late."""
    _note.set(torch.zeros(8, device=device))
    summary, weight = torch.zeros(8, device=device), torch.randn(8, device=device)

    def step(x: torch.Tensor) -> torch.Tensor:
        _note.set(torch.tanh(x * weight))
        return _note.get() + summary

    def between(k: int) -> None:
        if k == 130:
            _note.set(_note.get().clone())
        if k == 150:
            summary.copy_(_note.get())

    return _step(step, device, between)


def build_slow_with_late_scale(device: torch.device) -> graphsafe.Step:
    """The step keeps the host busy, so that there is no time for 256 rounds; the loop changes a scale late."""
    scale = [1.0]

    def step(x: torch.Tensor) -> torch.Tensor:
        busy_until = time.process_time() + 0.06
        while time.process_time() < busy_until:
            pass
        return x * scale[0]

    def between(k: int) -> None:
        if k == 200:
            scale[0] = 0.5

    return _step(step, device, between)


def build_proxied(device: torch.device) -> graphsafe.Step:
    """Weights behind a weak proxy, and a table by weak keys, of which the loop writes the rows."""
    linear = torch.nn.Linear(8, 8).to(device).requires_grad_(False)
    tables = WeakKeyDictionary({linear: torch.ones(8, device=device)})
    model = proxy(linear)
    return _step(lambda x: model(x) * tables[linear], device, lambda k: tables[linear].mul_(0.99))


def build_written_behind(device: torch.device) -> graphsafe.Step:
    """The loop copies the live rows if the step's Python has marked them, which replays do not do."""
    live, saved = torch.zeros(8, device=device), torch.zeros(8, device=device)
    marked = deque([False])

    def step(x: torch.Tensor) -> torch.Tensor:
        live.lerp_(x, 0.5)
        marked[0] = True
        return x + saved

    def between(k: int) -> None:
        if k % 12 == 11 and marked[0]:
            saved.copy_(live)
            marked[0] = False

    return _step(step, device, between)


class Tokens:
    """The step copies results to pinned memory, which the loop reads after an event."""

    def __init__(self, device: torch.device) -> None:
        self.weight = torch.randn(64, 64, device=device) / 8
        self.pinned = torch.zeros(64, pin_memory=True)
        self.done = torch.cuda.Event()

    def step(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(50):
            x = torch.tanh(x @ self.weight)
        self.pinned.copy_(x, non_blocking=True)
        if not torch.cuda.is_current_stream_capturing():
            self.done.record()
        return x

    def wait_for_event(self) -> None:
        self.done.synchronize()

    def wait_for_stream(self) -> None:
        torch.cuda.current_stream().synchronize()


def _fed_back(device: torch.device, wait: Callable[[Tokens], None]) -> graphsafe.Step:
    tokens = Tokens(device)

    def refresh(args: tuple[torch.Tensor], kwargs: object, k: int) -> None:
        wait(tokens)
        args[0].copy_(tokens.pinned.flip(0) + k)

    return graphsafe.Step(tokens.step, (torch.randn(64, device=device),), refresh=refresh)


def build_event_left_out(device: torch.device) -> graphsafe.Step:
    return _fed_back(device, Tokens.wait_for_event)


def build_stream_waited(device: torch.device) -> graphsafe.Step:
    return _fed_back(device, Tokens.wait_for_stream)


def build_doubled_by_position(device: torch.device) -> graphsafe.Step:
    """A cache that the loop replaces by a longer one once the device's position, which steps move, nears its end."""
    kept = {"cache": torch.zeros(48, 8, device=device), "position": torch.zeros(1, dtype=torch.long, device=device)}

    def step(x: torch.Tensor) -> torch.Tensor:
        kept["cache"].index_copy_(0, kept["position"] % len(kept["cache"]), x[None])
        kept["position"] += 1
        return kept["cache"].sum(0)

    def between(k: int) -> None:
        if int(kept["position"]) == len(kept["cache"]) - 1:
            kept["cache"] = torch.cat([kept["cache"], torch.zeros_like(kept["cache"])])

    return _step(step, device, between)


def _gathered(device: torch.device, is_read: bool) -> graphsafe.Step:
    """The host keeps the weights, trains them, and copies them to the device before each step. Only the refresh reaches
    the host's weights, so they are not put back, and no two runs are alike."""
    shard, weight, unread = torch.ones(8), torch.ones(8, device=device), torch.ones(8, device=device)

    def refresh(args: tuple[torch.Tensor], kwargs: object, k: int) -> None:
        shard.mul_(1.01)
        (weight if is_read else unread).copy_(shard)

    return graphsafe.Step(lambda x: x * weight + unread.sum() * 0, (torch.ones(8, device=device),), refresh=refresh)


def build_gathered(device: torch.device) -> graphsafe.Step:
    return _gathered(device, is_read=True)


def build_gathered_for_nothing(device: torch.device) -> graphsafe.Step:
    return _gathered(device, is_read=False)


def _timed(device: torch.device, scale: Callable[[int], float]) -> graphsafe.Step:
    """The loop copies the time into a buffer."""
    hour, scales = torch.zeros(1, device=device), [1.0]

    def between(k: int) -> None:
        hour.fill_(time.time() % 60)
        scales[0] = scale(k)

    return _step(lambda x: x + hour.sin() * scales[0], device, between)


def build_timed(device: torch.device) -> graphsafe.Step:
    return _timed(device, lambda k: 1.0)


def build_timed_by_scale(device: torch.device) -> graphsafe.Step:
    return _timed(device, lambda k: 1.0 if k < 40 else 0.5)


def build_step_count_copied(device: torch.device) -> graphsafe.Step:
    """The loop copies a count that the step's Python keeps, which replays do not do."""
    count, calls = torch.zeros(1, device=device), deque([0])

    def step(x: torch.Tensor) -> torch.Tensor:
        calls.append(calls.pop() + 1)
        return x + count

    return _step(step, device, lambda k: count.fill_(calls[0] // 10))


def build_number_of_thread(device: torch.device) -> graphsafe.Step:
    """A thread beside the step computes what the loop copies, another value in each process."""
    pool, number = ThreadPoolExecutor(1), torch.zeros(1, device=device)
    return _step(lambda x: x + number, device, lambda k: number.fill_(pool.submit(os.getpid).result() % 1000))


def _penalised(device: torch.device, first: bool) -> graphsafe.Step:
    """The step leaves penalties of zero out. The loop clears one row of the counts that the step increments."""
    counts, head = torch.zeros(3, 16, device=device), torch.randn(8, 16, device=device)
    weight, applies = torch.full((1,), 0.4 * first, device=device), [first]

    def step(x: torch.Tensor) -> torch.Tensor:
        logits = x.expand(3, 8) @ head
        if applies[0]:
            logits = logits - weight * counts
        counts.scatter_add_(1, logits.argmax(-1, keepdim=True), torch.ones(3, 1, device=counts.device))
        return logits

    def between(k: int) -> None:
        if k % 5 == 0:
            counts[k // 5 % 3].zero_()
        if k % 20 == 0:
            applies[0] = (k // 20 % 2 == 0) == first
            weight.fill_(0.4 * applies[0])

    return _step(step, device, between)


def build_penalised(device: torch.device) -> graphsafe.Step:
    return _penalised(device, first=True)


def build_penalised_later(device: torch.device) -> graphsafe.Step:
    return _penalised(device, first=False)


def _locked(device: torch.device, scale: Callable[[int], float]) -> graphsafe.Step:
    """Only one process at a time can hold the lock, as for a server's port."""
    file = open(os.path.join(tempfile.gettempdir(), "graphsafe-locked"), "a")  # noqa: SIM115
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    held = {"file": file, "scale": 1.0}

    def between(k: int) -> None:
        held["scale"] = scale(k)

    return _step(lambda x: x * held["scale"], device, between)


def build_locked(device: torch.device) -> graphsafe.Step:
    return _locked(device, lambda k: 1.0)


def build_locked_and_scaled(device: torch.device) -> graphsafe.Step:
    return _locked(device, lambda k: 1.0 + k)


def cached_mask(evicts: bool) -> Callable[[torch.device], graphsafe.Step]:
    """A step that reads a mask from a cache. The loop looks up a longer mask too, or clears the cache and fills it."""

    def build(device: torch.device) -> graphsafe.Step:
        @functools.cache
        def mask(length: int) -> torch.Tensor:
            return torch.ones(length, device=device).cumsum(0)

        def between(k: int) -> None:
            if evicts and k % 3 == 2:
                mask.cache_clear()
            mask(8 + k % 2)
            mask(8)

        return _step(lambda x: x * mask(8), device, between)

    return build


build_mask_evicted, build_mask_kept = cached_mask(True), cached_mask(False)


class _Connection:
    """A user of a slot. It refers to itself, so only a garbage collection returns the slot."""

    def __init__(self, free: list[int]) -> None:
        self.free, self.slot = free, heapq.heappop(free)
        self.owner = self

    def __del__(self) -> None:
        heapq.heappush(self.free, self.slot)


def build_reconnected(device: torch.device) -> graphsafe.Step:
    """The slots that are free depend on the objects that are alive."""
    memory, free, slot = torch.randn(6, 8, device=device), [*range(6)], torch.zeros(1, dtype=torch.int64, device=device)
    held = [_Connection(free)]

    def refresh(args: tuple[torch.Tensor], kwargs: object, k: int) -> None:
        args[0].copy_(torch.randn(4, 8))
        if k % 6 == 5:
            held[0] = _Connection(free)
            gc.collect()
            slot.fill_(held[0].slot)

    step = torch.no_grad()(lambda x: x * memory.index_select(0, slot))
    return graphsafe.Step(step, (torch.randn(4, 8, device=device),), refresh=refresh)


def build_count_asserted(device: torch.device) -> graphsafe.Step:
    """A refresh that fails if the count that steps keep on the device is put back."""
    count, table, calls = torch.zeros(1, device=device), torch.randn(8, device=device), list[float]()

    def fn(x: torch.Tensor) -> torch.Tensor:
        count.add_(1)
        return x * table + count

    def between(k: int) -> None:
        calls.append(count.item())
        if len(calls) > 8 and calls[-1] <= calls[-2]:
            raise RuntimeError("the count was put back")

    return _step(fn, device, between)
