"""Steps whose later steps take other paths of Python code, or write into their arguments, and sound twins of them."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import torch

import graphsafe

Refresh = Callable[[Any, object, int], None]


def _step(fn: Any, device: torch.device, between: Callable[[int], None], *more: torch.Tensor) -> graphsafe.Step:
    def refresh(args: tuple[torch.Tensor, ...], kwargs: object, k: int) -> None:
        args[0].copy_(torch.randn(8))
        between(k)

    return graphsafe.Step(fn, (torch.randn(8, device=device), *more), refresh=refresh)


def _averaged(device: torch.device, decay: Any, change: Callable[[Any], Any]) -> graphsafe.Step:
    settings = {"decay": decay}

    def step(x: torch.Tensor, average: torch.Tensor) -> torch.Tensor:
        average.mul_(settings["decay"]).add_(x)
        return x * 2

    def between(k: int) -> None:
        if k == 50:
            settings["decay"] = change(settings["decay"])

    return _step(step, device, between, torch.zeros(8, device=device))


def build_averaged(device: torch.device) -> graphsafe.Step:
    """From the 50th round on, the average in an argument has another decay. No output shows it."""
    return _averaged(device, 0.9, lambda decay: 0.999)


def build_averaged_by_tensor(device: torch.device) -> graphsafe.Step:
    return _averaged(device, torch.tensor(0.9, device=device), lambda decay: decay.fill_(0.999))


def build_seldom_grey(device: torch.device) -> graphsafe.Step:
    """One step of fifty computes something else, by a random number of the host."""

    def step(x: torch.Tensor) -> torch.Tensor:
        return x.mean().expand(8) * 1.0 if random.random() > 0.98 else x * 1.0

    return _step(step, device, lambda k: None)


class _Words:
    """Bans words. An eager step leaves the mask out if none is banned."""

    def __init__(self, device: torch.device, words: int = 512) -> None:
        self.head = torch.randn(8, words, generator=torch.Generator().manual_seed(3)).to(device)
        self.banned = torch.zeros(words, dtype=torch.bool, device=device)
        self.is_any = False

    def logits(self, x: torch.Tensor) -> torch.Tensor:
        logits = x @ self.head
        return logits.masked_fill(self.banned, -1.0e9) if self.is_any else logits

    def ban(self, k: int) -> None:
        self.is_any = 80 <= k < 96


def build_banned_word(device: torch.device) -> graphsafe.Step:
    """A banned word is seldom the largest, so the result shows almost nothing."""
    words = _Words(device)

    def between(k: int) -> None:
        words.ban(k)
        words.banned[17:19] = words.is_any

    return _step(lambda x: words.logits(x).argmax(-1), device, between)


def build_banned_word_beside_input(device: torch.device) -> graphsafe.Step:
    """The floats of this result do not depend on the mask."""
    words = _Words(device)

    def between(k: int) -> None:
        words.ban(k)
        words.banned[17:19] = words.is_any

    return _step(lambda x: (words.logits(x).argmax(-1), x * 2), device, between)


def build_no_word_banned(device: torch.device) -> graphsafe.Step:
    """Sound: the mask of the later path is empty, and the logits show it."""
    words = _Words(device)

    def step(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        logits = words.logits(x)
        return logits.argmax(-1), logits

    return _step(step, device, words.ban)


def build_no_word_banned_is_seen(device: torch.device) -> graphsafe.Step:
    """Sound: in every 20th round the step computes something that no result uses."""
    words, entropy = _Words(device), [torch.zeros(())]
    rounds = [0]

    def step(x: torch.Tensor) -> torch.Tensor:
        logits = words.logits(x)
        if rounds[0] % 20 == 0:
            entropy[0] = torch.softmax(logits, -1).log().mean()
            entropy[0] = torch.zeros(())
        return logits.argmax(-1)

    def between(k: int) -> None:
        rounds[0] = k

    return _step(step, device, between)


def _guided(device: torch.device, weight: Any, change: Callable[[Any], Any]) -> graphsafe.Step:
    settings = {"weight": weight}

    def step(x: torch.Tensor) -> torch.Tensor:
        low = x.to(torch.bfloat16)
        return low.sin() + settings["weight"] * (low.cos() - low.sin())

    def between(k: int) -> None:
        if k == 60:
            settings["weight"] = change(settings["weight"])

    return _step(step, device, between)


def build_guided(device: torch.device) -> graphsafe.Step:
    """From the 60th round on, the weight is a little smaller: by no more than a few units of bfloat16."""
    return _guided(device, 1.5, lambda weight: 1.48)


def build_guided_by_tensor(device: torch.device) -> graphsafe.Step:
    return _guided(device, torch.full((), 1.5, device=device, dtype=torch.bfloat16), lambda weight: weight.fill_(1.48))


def _synchronised(device: torch.device, every: int) -> graphsafe.Step:
    weight = torch.ones(8, device=device)
    target, count = weight.clone(), torch.zeros((), dtype=torch.long)

    def step(x: torch.Tensor) -> torch.Tensor:
        weight.add_(x, alpha=0.1)
        count.add_(1)
        if int(count) % every == 0:
            target.copy_(weight)
        return x * target

    return _step(step, device, lambda k: None)


def build_synchronised(device: torch.device) -> graphsafe.Step:
    """A tensor on the CPU counts steps, and decides in every 40th."""
    return _synchronised(device, 40)


def build_never_synchronised(device: torch.device) -> graphsafe.Step:
    """Sound: the count on the CPU decides nothing in the first million steps."""
    return _synchronised(device, 10**6)


def _paged(device: torch.device, is_rounded: bool) -> graphsafe.Step:
    pages, slot = torch.randn(64, 64, 128, device=device), torch.zeros(1, dtype=torch.long, device=device)
    oldest, flags = torch.zeros(1, dtype=torch.long, device=device), {"full": False}
    rows = torch.randn(8, 128, device=device)

    def step(x: torch.Tensor) -> torch.Tensor:
        key = (x @ rows)[None]
        pages[0].index_copy_(0, slot, key)
        if flags["full"]:
            page = pages.index_select(0, oldest)
            pages.index_copy_(0, oldest, torch.round(page * 8) / 8 if is_rounded else page)
        return (pages[0] @ key[0]).softmax(-1)

    def between(k: int) -> None:
        slot.fill_(k % 64)
        flags["full"] = k % 40 == 39
        oldest.fill_(63 - k // 40)

    return _step(step, device, between)


def build_paged(device: torch.device) -> graphsafe.Step:
    """In every 40th round the step rounds an old page of a cache of 2 MiB, which no output shows."""
    return _paged(device, is_rounded=True)


def build_paged_unchanged(device: torch.device) -> graphsafe.Step:
    """Sound: the page is written as it is."""
    return _paged(device, is_rounded=False)


def _capped(device: torch.device, first: float) -> Any:
    calls = [0]

    def step(x: torch.Tensor) -> torch.Tensor:
        calls[0] += 1
        cap = max(1.0, first - 0.25 * calls[0])
        return x.clamp(-cap, cap) * 1.5

    return step, (torch.linspace(-3.0, 3.0, 8).to(device),)


def build_capped(device: torch.device) -> Any:
    """A limit is tightened in each call, and has its first effect after some seventy calls."""
    return _capped(device, 20.0)


def build_never_capped(device: torch.device) -> Any:
    """Sound: the limit is tightened too, but never has an effect."""
    return _capped(device, 1.0e6)


def build_halved_by_device_count(device: torch.device) -> graphsafe.Step:
    """The loop reads a count of the device, and halves a rate on the host. The results then differ only a little."""
    weight, good = torch.ones(8, device=device), torch.zeros((), dtype=torch.long, device=device)
    settings = {"rate": 1.0e-4}

    def step(x: torch.Tensor) -> torch.Tensor:
        good.add_(1)
        weight.sub_(settings["rate"] * x)
        return x * weight

    def between(k: int) -> None:
        if int(good) >= 100:
            good.zero_()
            settings["rate"] *= 0.5

    return _step(step, device, between)
