"""Random generators that work like a GPU's generator: it has a seed, and an offset that every draw advances.

The numbers come from the CPU's generator. For each operation this generator is seeded with (seed, offset), and it is
restored afterwards. So the same state gives the same numbers in eager steps and in replays, and the host's own random
numbers do not change. The flag `capturing` behaves as in torch <= 2.11: it is set when a capture begins, and cleared
only when a capture succeeds.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch

from graphsafe.capture.device.sim.legality import LEFT_CAPTURING, OFFSET_ASKED, RESEEDED, UNREGISTERED

DEFAULT_SEED = 67280421310721
INCREMENT = 4
"""Number of Philox numbers that a small operation uses per thread. On a GPU a larger operation uses a multiple of this
number."""
_MASK = (1 << 64) - 1


@dataclass(slots=True)
class State:
    """The state that `graphsafe_get_state` returns. Several generators may share it."""

    seed: int = DEFAULT_SEED
    offset: int = 0
    capturing: bool = False
    drawn: int = 0
    "How far the open capture has advanced the offset."


class Generator(torch._C.Generator):
    """`torch.Generator(device="cuda")`. During a capture it behaves as PyTorch's generators do."""

    def __new__(cls, *_: Any) -> Generator:
        return super().__new__(cls)

    def __init__(self, index: int, world: Any, state: State | None = None) -> None:
        """`index` is the device's index, and `world` is the device's `World`."""
        self.index = index
        self.state = state or State()
        self._world = world

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return torch.device("cuda", self.index)

    def check(self, capturing: bool) -> None:
        """Raise the error that a draw would raise. `capturing` says whether the current stream is capturing."""
        if capturing and not self.state.capturing:
            raise UNREGISTERED.error()
        if not capturing and self.state.capturing:
            raise LEFT_CAPTURING.error()

    def advance(self, capturing: bool) -> int:
        """Return the offset of this draw. Advance the offset beyond the draw; during a capture, advance the capture's
        own count."""
        if capturing:
            self.state.drawn += INCREMENT
            return self.state.drawn - INCREMENT
        self.state.offset += INCREMENT
        return self.state.offset - INCREMENT

    def manual_seed(self, seed: int) -> Generator:
        seed = int(seed) & _MASK
        if self._world.is_capturing():
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
        world = self._world
        if world.is_capturing():
            world.refuse(OFFSET_ASKED, "torch.Generator.get_offset", "random", how="state")
        return self.state.offset

    def set_offset(self, offset: int) -> Generator:
        """Set the offset. During a capture, later draws then repeat the numbers of earlier draws."""
        if self._world.is_capturing():
            self.state.drawn = int(offset)
        else:
            self.state.offset = int(offset)
        return self

    def get_state(self) -> torch.Tensor:
        """Return the state. During a capture, its offset includes the draws that have been captured so far."""
        offset = self.state.drawn if self._world.is_capturing() else self.state.offset
        words = self.state.seed.to_bytes(8, "little") + offset.to_bytes(8, "little")
        return torch.frombuffer(bytearray(words), dtype=torch.uint8).clone()

    def set_state(self, new_state: torch.Tensor) -> Generator:
        words = bytes(new_state.tolist())
        self.manual_seed(int.from_bytes(words[:8], "little"))
        return self.set_offset(int.from_bytes(words[8:16], "little"))

    def graphsafe_get_state(self) -> Generator:
        return Generator(self.index, self._world, self.state)

    def graphsafe_set_state(self, state: torch._C.Generator) -> Generator:
        if not isinstance(state, Generator):
            raise RuntimeError("Expected a CUDAGeneratorImpl")
        self.state = state.state
        return self

    def clone_state(self) -> Generator:
        return Generator(self.index, self._world, replace(self.state))

    def __reduce__(self) -> Any:
        return _of_device, (self.device,), None


def _of_device(device: torch.device) -> torch._C.Generator:
    return torch.Generator(device)  # the replacement of this class makes simulated generators


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
    value = (seed + 0x9E3779B97F4A7C15 * (offset + 1)) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)
