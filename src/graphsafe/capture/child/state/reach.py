"""Everything that a step reaches, by path. `walk.py` fills it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from graphsafe.capture.child.state.generators import seed
from graphsafe.capture.device.modes import outside_modes

HostValue = str
"A number or a string as Python writes it, or the digest of a larger value."
Constants = dict[str, tuple[HostValue, Any]]
"Path of a small, immutable host value -> the value as a string, and the value itself."


@dataclass
class ReachableState:
    """Everything that a step reaches, by path.

    A path is written as the user would write it, starting from the target: `layers.0.weight`, `args[1]`,
    `kwargs['cache'].key`, or a variable of the step's closure or module. The same program gives the same paths in every
    child.
    """

    tensors: dict[str, torch.Tensor] = field(default_factory=dict)
    """Tensors whose elements can be read and written one by one. If several elements share memory (an expanded tensor),
    the tensor here is a view that has each element once."""
    hosts: dict[str, HostValue] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    "The values themselves, for the entries of `hosts` that are small and immutable."
    owners: dict[str, tuple[Any, Any]] = field(default_factory=dict)
    """Path of a host value or a tensor -> the container that holds it, and the key.

    The container is a dict (with the key), a list, deque or tuple (with the index), a class or a TorchScript module
    (with the name of the variable), or a `Slot`. The container of an attribute, or of a variable of a module, is the
    `__dict__`.
    """
    tuples: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    """Tuples by path. If an element of a tuple changed, a new tuple can replace the tuple, because tuples have an owner
    too."""
    generators: dict[str, torch.Generator] = field(default_factory=dict)
    host_generators: dict[str, Any] = field(default_factory=dict)
    "Objects of `random.Random`, `numpy.random.Generator` and `numpy.random.RandomState`."
    lengths: dict[str, int] = field(default_factory=dict)
    "Numbers of elements of lists, tuples, sets and dicts."
    sized: dict[str, Any] = field(default_factory=dict)
    "The objects in `lengths` that can change their length: lists, sets and dicts."
    holders: dict[str, tuple[Any, Any]] = field(default_factory=dict)
    "The container and the key of each object in `sized`, as in `owners`."
    queues: dict[str, int] = field(default_factory=dict)
    "Queues of the class `SimpleQueue` that hold tensors, with their sizes."
    caches: dict[str, tuple[Any, int]] = field(default_factory=dict)
    "Functions with a `functools.lru_cache`, with the number of results in the cache."
    containers: list[Any] = field(default_factory=list)
    "The containers that `Snapshot` refills."
    unreadable: dict[str, str] = field(default_factory=dict)
    "Tensors that are not compared, with the reason."
    opaque: list[str] = field(default_factory=list)
    "Objects whose position or other state cannot be read: running generators, most iterators."

    def constants(self) -> Constants:
        """Return the host values that are small and immutable. A reference to such values keeps no other object
        alive."""
        return {path: (self.hosts[path], value) for path, value in self.values.items() if path in self.hosts}

    def places(self) -> dict[str, int]:
        """Return the address of each tensor's memory, by path."""
        return {path: tensor.untyped_storage().data_ptr() for path, tensor in self.tensors.items()}

    def views(self) -> dict[str, torch.Tensor]:
        """Return detached views. A view keeps its memory even if the tensor is later given other memory (`.data =`)."""
        with outside_modes():
            return {path: tensor.detach() for path, tensor in self.tensors.items()}

    def seed(self, value: int) -> None:
        """Seed all generators in this object, those of the device and those of the host."""
        for generator in self.generators.values():
            generator.manual_seed(value)
        for found in self.host_generators.values():
            seed(found, value)


def moved_tensors(before: Mapping[str, int], after: Mapping[str, int]) -> tuple[str, ...]:
    """Return the tensors whose memory has moved. `before` and `after` are results of `ReachableState.places`."""
    return tuple(path for path, place in before.items() if after.get(path, place) != place)
