"""Random generators as Python objects. During a capture, these generators behave as PyTorch's generators do."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import torch

from graphsafe.capture.device.sim import world as worlds
from graphsafe.capture.device.sim.legality import OFFSET_ASKED, RESEEDED
from graphsafe.capture.device.sim.random_source import MASK, RandomSource, State
from graphsafe.capture.device.sim.streams import device_index


class Generator(torch._C.Generator):
    """`torch.Generator(device="cuda")`."""

    source: RandomSource

    def __new__(cls, device: Any = "cuda") -> Generator:
        return cls.of(RandomSource(device_index(device)))

    def __init__(self, device: Any = "cuda") -> None: ...

    @classmethod
    def of(cls, source: RandomSource) -> Generator:
        made: Generator = super().__new__(cls)
        made.source = source
        return made

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return torch.device("cuda", self.source.index)

    @property
    def state(self) -> State:
        return self.source.state

    def manual_seed(self, seed: int) -> Generator:
        seed = int(seed) & MASK
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
        world = worlds.current()
        if world.is_capturing():
            world.refuse(OFFSET_ASKED, "torch.Generator.get_offset", "random", how="state")
        return self.state.offset

    def set_offset(self, offset: int) -> Generator:
        """Set the offset. During a capture, later draws then repeat the numbers of earlier draws."""
        if worlds.current().is_capturing():
            self.state.drawn = int(offset)
        else:
            self.state.offset = int(offset)
        return self

    def get_state(self) -> torch.Tensor:
        """Return the state. During a capture, its offset includes the draws that were captured so far."""
        offset = self.state.drawn if worlds.current().is_capturing() else self.state.offset
        words = self.state.seed.to_bytes(8, "little") + offset.to_bytes(8, "little")
        return torch.frombuffer(bytearray(words), dtype=torch.uint8).clone()

    def set_state(self, new_state: torch.Tensor) -> Generator:
        words = bytes(new_state.tolist())
        self.manual_seed(int.from_bytes(words[:8], "little"))
        return self.set_offset(int.from_bytes(words[8:16], "little"))

    def graphsafe_get_state(self) -> Generator:
        return Generator.of(RandomSource(self.source.index, self.state))

    def graphsafe_set_state(self, state: torch._C.Generator) -> Generator:
        if not isinstance(state, Generator):
            raise RuntimeError("Expected a CUDAGeneratorImpl")
        self.source.state = state.state
        return self

    def clone_state(self) -> Generator:
        return Generator.of(RandomSource(self.source.index, replace(self.state)))

    def __reduce__(self) -> Any:
        return Generator, (self.device,), None
