"""Steps on two streams: with a missing edge, and sound twins."""

from __future__ import annotations

from typing import Any

import torch

Built = tuple[Any, tuple[Any, ...]]


def _inputs(device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(64, 64, device=device), torch.randn(64, 64, device=device)


def _two_streams(device: torch.device) -> tuple[torch.cuda.Stream, torch.cuda.Event]:
    return torch.cuda.Stream(device), torch.cuda.Event()


def build_read_too_early(device: torch.device) -> Built:
    side, _ = _two_streams(device)

    def step(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        main = torch.cuda.current_stream(device)
        side.wait_stream(main)
        with torch.cuda.stream(side):
            y = a @ b
        z = y + 1
        main.wait_stream(side)
        return z * 2

    return step, _inputs(device)


def build_event_before_work(device: torch.device) -> Built:
    side, done = _two_streams(device)

    def step(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        main = torch.cuda.current_stream(device)
        side.wait_stream(main)
        with torch.cuda.stream(side):
            done.record(side)
            y = a @ b
        main.wait_event(done)
        z = torch.relu(y)
        main.wait_stream(side)
        return z

    return step, _inputs(device)


def build_shared_scratch(device: torch.device) -> Built:
    side, _ = _two_streams(device)
    scratch = torch.zeros(64, 64, device=device)

    def step(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        main = torch.cuda.current_stream(device)
        side.wait_stream(main)
        with torch.cuda.stream(side):
            scratch.copy_(a)
            y = scratch * 2
        scratch.copy_(b)
        z = scratch * 3
        main.wait_stream(side)
        return y + z

    return step, _inputs(device)


def build_joined(device: torch.device) -> Built:
    """Sound: both lanes read the same inputs, and the join stands before the first use."""
    side, done = _two_streams(device)

    def step(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        main = torch.cuda.current_stream(device)
        side.wait_stream(main)
        with torch.cuda.stream(side):
            y = a @ b
            done.record(side)
        z = a + b
        main.wait_event(done)
        return y + z

    return step, _inputs(device)


def build_columns(device: torch.device) -> Built:
    """Sound: each lane writes columns of its own of one buffer."""
    side, _ = _two_streams(device)
    both = torch.zeros(64, 128, device=device)

    def step(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        main = torch.cuda.current_stream(device)
        side.wait_stream(main)
        with torch.cuda.stream(side):
            both[:, :64].copy_(a)
        both[:, 64:].copy_(b)
        main.wait_stream(side)
        return both * 2

    return step, _inputs(device)


def _freed(device: torch.device, *, recorded: bool = False, joined: bool = False, kept: bool = False) -> Built:
    side, _ = _two_streams(device)

    def step(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        main = torch.cuda.current_stream(device)
        doubled = a * 2
        side.wait_stream(main)
        with torch.cuda.stream(side):
            y = doubled.sin()
        if recorded:
            doubled.record_stream(side)
        if joined:
            main.wait_stream(side)
        if not kept:
            del doubled
        z = b + 1  # an allocator may put it where `doubled` was, while the side stream reads that
        main.wait_stream(side)
        return y + z

    return step, _inputs(device)


def build_freed_early(device: torch.device) -> Built:
    return _freed(device)


def build_freed_recorded(device: torch.device) -> Built:
    return _freed(device, recorded=True)


def build_freed_joined(device: torch.device) -> Built:
    return _freed(device, joined=True)


def build_freed_kept(device: torch.device) -> Built:
    return _freed(device, kept=True)
