"""Random numbers in the manner of a GPU's generator: a seed and an offset that every draw advances.

The numbers come from the CPU's generator, seeded by (seed, offset) for each operation and restored after it. So the
same state gives the same numbers, eager and replayed, and the host's own random numbers do not change. The capturing
flag follows torch <= 2.11: set when a capture begins, cleared only when a capture succeeds.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch

from graphsafe.capture.device.sim import world as worlds
from graphsafe.capture.device.sim.legality import LEFT_CAPTURING, OFFSET_ASKED, RESEEDED, UNREGISTERED
from graphsafe.capture.device.sim.streams import device_index

DEFAULT_SEED = 67280421310721
INCREMENT = 4
"""The number of Philox numbers that a small operation uses per thread; on a GPU a larger operation uses a multiple of
this."""
_MASK = (1 << 64) - 1


@dataclass(slots=True)
class State:
    """The state that `graphsafe_get_state` returns, shared by reference."""

    seed: int = DEFAULT_SEED
    offset: int = 0
    capturing: bool = False
    drawn: int = 0
    "How far the open capture has advanced the offset."


class Generator(torch._C.Generator):
    """`torch.Generator(device="cuda")`."""

    state: State
    index: int

    def __new__(cls, device: Any = "cuda") -> Generator:
        made: Generator = super().__new__(cls)
        made.state = State()
        made.index = device_index(device)
        return made

    def __init__(self, device: Any = "cuda") -> None: ...

    @classmethod
    def default(cls, index: int) -> Generator:
        return cls(torch.device("cuda", index))

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return torch.device("cuda", self.index)

    def manual_seed(self, seed: int) -> Generator:
        seed = int(seed) & _MASK
        if worlds.current().is_capturing():
            if seed != self.state.seed:
                raise RESEEDED.error()
            return self
        self.state.seed, self.state.offset = seed, 0
        return self

    def seed(self) -> int:
        fresh = int.from_bytes(os.urandom(8), "little")
        self.manual_seed(fresh)
        return fresh

    def initial_seed(self) -> int:
        return self.state.seed

    def get_offset(self) -> int:
        session = worlds.current().session
        if session is not None and worlds.current().is_capturing():
            session.refuse(OFFSET_ASKED, "torch.Generator.get_offset", "random", how="state")
        return self.state.offset

    def set_offset(self, offset: int) -> Generator:
        """Set the offset. In a capture, later draws repeat the numbers of earlier draws."""
        if worlds.current().is_capturing():
            self.state.drawn = int(offset)
        else:
            self.state.offset = int(offset)
        return self

    def get_state(self) -> torch.Tensor:
        """Return the state; in a capture, its offset includes the draws captured so far."""
        offset = self.state.drawn if worlds.current().is_capturing() else self.state.offset
        words = self.state.seed.to_bytes(8, "little") + offset.to_bytes(8, "little")
        return torch.frombuffer(bytearray(words), dtype=torch.uint8).clone()

    def set_state(self, new_state: torch.Tensor) -> Generator:
        words = bytes(new_state.tolist())
        self.manual_seed(int.from_bytes(words[:8], "little"))
        return self.set_offset(int.from_bytes(words[8:16], "little"))

    def graphsafe_get_state(self) -> Generator:
        other = Generator(self.device)
        other.state = self.state
        return other

    def graphsafe_set_state(self, state: torch._C.Generator) -> Generator:
        if not isinstance(state, Generator):
            raise RuntimeError("Expected a CUDAGeneratorImpl")
        self.state = state.state
        return self

    def clone_state(self) -> Generator:
        other = Generator(self.device)
        other.state = replace(self.state)
        return other

    def __reduce__(self) -> Any:
        return Generator, (self.device,), None


def check(generator: Generator, capturing: bool) -> None:
    """Raise the error that a draw from `generator` raises; `capturing` is True if the current stream is capturing."""
    if capturing and not generator.state.capturing:
        raise UNREGISTERED.error()
    if not capturing and generator.state.capturing:
        raise LEFT_CAPTURING.error()


def advance(generator: Generator, capturing: bool) -> int:
    """Return the offset of this draw, and advance the generator, or the open capture's count, beyond the draw."""
    state = generator.state
    if capturing:
        state.drawn += INCREMENT
        return state.drawn - INCREMENT
    state.offset += INCREMENT
    return state.offset - INCREMENT


def draw(seed: int, offset: int, operation: Callable[[], Any]) -> Any:
    """Run `operation` with the host's default generator at (seed, offset), and restore the generator."""
    host = torch.default_generator
    before = host.get_state()
    host.manual_seed(_mix(seed, offset))
    try:
        return operation()
    finally:
        host.set_state(before)


def _mix(seed: int, offset: int) -> int:
    """Mix the pair with splitmix64, so that neighbouring offsets give unrelated numbers."""
    value = (seed + 0x9E3779B97F4A7C15 * (offset + 1)) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)
