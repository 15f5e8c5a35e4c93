"""Random numbers in the manner of a GPU's generator, which has a seed and an offset that every draw advances.

The numbers come from the CPU's generator. For each operation this generator is seeded with (seed, offset), and it is
restored afterwards. So the same state gives the same numbers in eager steps and in replays, and the host's own random
numbers do not change. The flag `capturing` behaves as in torch <= 2.11: it is set when a capture begins, and cleared
only when a capture succeeds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from graphsafe.capture.device.sim.legality import LEFT_CAPTURING, UNREGISTERED

DEFAULT_SEED = 67280421310721
INCREMENT = 4
"""Number of Philox numbers that a small operation uses per thread. On a GPU a larger operation uses a multiple of this
number."""
MASK = (1 << 64) - 1


@dataclass(slots=True)
class State:
    """The state that `graphsafe_get_state` returns. Several generators may share it."""

    seed: int = DEFAULT_SEED
    offset: int = 0
    capturing: bool = False
    drawn: int = 0
    "How far the open capture has advanced the offset."


@dataclass(eq=False, slots=True)
class RandomSource:
    """The source of a generator's numbers. Several sources may share one state."""

    index: int
    "The index of the device."
    state: State = field(default_factory=State)


def check(source: RandomSource, capturing: bool) -> None:
    """Raise the error that a draw from `source` would raise. `capturing` says whether the current stream is
    capturing."""
    if capturing and not source.state.capturing:
        raise UNREGISTERED.error()
    if not capturing and source.state.capturing:
        raise LEFT_CAPTURING.error()


def advance(source: RandomSource, capturing: bool) -> int:
    """Return the offset of this draw. Advance the offset beyond the draw; during a capture, advance the capture's own
    count."""
    state = source.state
    if capturing:
        state.drawn += INCREMENT
        return state.drawn - INCREMENT
    state.offset += INCREMENT
    return state.offset - INCREMENT


def draw(seed: int, offset: int, operation: Callable[[], Any]) -> Any:
    """Run `operation` with the host's default generator seeded by (seed, offset), then restore the generator."""
    host = torch.default_generator
    before = host.get_state()
    host.manual_seed(_mix(seed, offset))
    try:
        return operation()
    finally:
        host.set_state(before)


def _mix(seed: int, offset: int) -> int:
    """Mix the pair with splitmix64, so that neighbouring offsets give unrelated numbers."""
    value = (seed + 0x9E3779B97F4A7C15 * (offset + 1)) & MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & MASK
    return value ^ (value >> 31)
