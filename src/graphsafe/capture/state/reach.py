"""What a walk found, by path."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

HostValue = str
"A number or a string as Python writes it, or a digest of something larger."


@dataclass
class Reach:
    """A path reads as the user would write it from the target: `layers.0.weight`, `args[1]`, `kwargs['cache'].key`, or
    a variable of the step's closure or module. The same program gives the same paths in every child."""

    tensors: dict[str, torch.Tensor] = field(default_factory=dict)
    """Tensors whose elements can be read and written one by one. What several elements share (an expanded tensor) is in
    here once, as an alias."""
    hosts: dict[str, HostValue] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    "The objects behind those `hosts` that are small and immutable."
    owners: dict[str, tuple[Any, Any]] = field(default_factory=dict)
    """Path of a host value or a tensor -> the container that holds it, and the key: a dict and its key (attributes and
    variables of modules too: the dict that holds them), a list, deque or tuple and the index, a class and the name of
    the variable, a slot, a closure's cell, attributes of a TorchScript module and the name."""
    tuples: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    "Those have an owner too, so that a new tuple can be put in the place of one whose element changed."
    generators: dict[str, torch.Generator] = field(default_factory=dict)
    host_generators: dict[str, Any] = field(default_factory=dict)
    "`random.Random`, `numpy.random.Generator` and `numpy.random.RandomState`."
    lengths: dict[str, int] = field(default_factory=dict)
    "Of lists, tuples, sets and dicts."
    sized: dict[str, Any] = field(default_factory=dict)
    "The same lists, sets and dicts, by path."
    caches: dict[str, tuple[Any, int]] = field(default_factory=dict)
    "Functions behind `functools.lru_cache`, and how many results they keep."
    containers: list[Any] = field(default_factory=list)
    "What `Snapshot` refills."
    unreadable: dict[str, str] = field(default_factory=dict)
    "Tensors that are not compared, and why."
    opaque: list[str] = field(default_factory=list)
    "Objects that have a position or other state which cannot be seen: running generators, most iterators."
    complete: bool = True
    "False where there was too much to walk."

    def seed(self, value: int) -> None:
        """Seed every generator found, of the device and of the host."""
        from graphsafe.capture.state.generators import seed

        for generator in self.generators.values():
            generator.manual_seed(value)
        for found in self.host_generators.values():
            seed(found, value)
