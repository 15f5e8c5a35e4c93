"""Everything that a step reaches, by path: the result of the walk in `walk.py`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from graphsafe.capture.child.state.generators import seed

HostValue = str
"A number or a string as Python writes it, or a digest of a larger value."
Constants = dict[str, tuple[HostValue, Any]]
"The path of a small, immutable value of the host -> its text and itself."


@dataclass
class Reach:
    """Everything that a step reaches, by path.

    A path reads as the user would write it from the target: `layers.0.weight`, `args[1]`, `kwargs['cache'].key`, or a
    variable of the step's closure or module. The same program gives the same paths in every child.
    """

    tensors: dict[str, torch.Tensor] = field(default_factory=dict)
    """Tensors whose elements can be read and written one by one. Memory that several elements share (an expanded
    tensor) is listed once, as an alias."""
    hosts: dict[str, HostValue] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    "The objects of those host values that are small and immutable."
    owners: dict[str, tuple[Any, Any]] = field(default_factory=dict)
    """Path of a host value or a tensor -> the container that holds it, and the key: a dict and its key (attributes and
    variables of modules too: the dict that holds them), a list, deque or tuple and the index, a class and the name of
    the variable, a `Slot`, a TorchScript module and the name."""
    tuples: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    "Tuples have an owner too, so that a new tuple can replace one whose element changed."
    generators: dict[str, torch.Generator] = field(default_factory=dict)
    host_generators: dict[str, Any] = field(default_factory=dict)
    "Objects of `random.Random`, `numpy.random.Generator` and `numpy.random.RandomState`, by path."
    lengths: dict[str, int] = field(default_factory=dict)
    "The number of elements of lists, tuples, sets and dicts."
    sized: dict[str, Any] = field(default_factory=dict)
    "The same lists, sets and dicts, by path."
    caches: dict[str, tuple[Any, int]] = field(default_factory=dict)
    "Functions behind `functools.lru_cache`, with the number of results they keep."
    containers: list[Any] = field(default_factory=list)
    "The containers that `Snapshot` refills."
    unreadable: dict[str, str] = field(default_factory=dict)
    "Tensors that are not compared, with the reason."
    opaque: list[str] = field(default_factory=list)
    "Objects with a position or other state that cannot be seen: running generators, most iterators."

    def constants(self) -> Constants:
        """Return the host values that are small and immutable. Holding them keeps no other object alive."""
        return {path: (self.hosts[path], value) for path, value in self.values.items() if path in self.hosts}

    def places(self) -> dict[str, int]:
        """Return the address of each tensor's memory."""
        return {path: tensor.untyped_storage().data_ptr() for path, tensor in self.tensors.items()}

    def seed(self, value: int) -> None:
        """Seed every generator that was found, on the device and on the host."""
        for generator in self.generators.values():
            generator.manual_seed(value)
        for found in self.host_generators.values():
            seed(found, value)


def moved(before: Mapping[str, int], after: Mapping[str, int]) -> tuple[str, ...]:
    """Return the tensors whose memory has moved between two results of `Reach.places`."""
    return tuple(path for path, place in before.items() if after.get(path, place) != place)
