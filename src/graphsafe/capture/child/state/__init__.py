"""Finds what a step can reach and change (every tensor, host value, generator and container behind its callable and its
arguments), by path, and puts it back.

Nothing here runs the user's code (no property, no `__getattr__`, no `__len__`, no `__repr__`), with one exception: the
inner tensors of a wrapper subclass are read by `__tensor_flatten__`.
"""

from graphsafe.capture.child.state.containers import (
    MISSING,
    StateError,
    held_at,
    put_at,
    put_back_host,
    tensors_kept_by,
)
from graphsafe.capture.child.state.inputs import inputs_of, numbers_of, with_objects
from graphsafe.capture.child.state.reach import HostValue, Reach
from graphsafe.capture.child.state.reachable import (
    generators_of,
    objects_of,
    reach_of,
    reach_with_refresh,
    seed_generators,
    walk,
)
from graphsafe.capture.child.state.snapshot import Bindings, Snapshot, Undo, copies_of

__all__ = [
    "MISSING",
    "Bindings",
    "HostValue",
    "Reach",
    "Snapshot",
    "StateError",
    "Undo",
    "copies_of",
    "generators_of",
    "held_at",
    "inputs_of",
    "numbers_of",
    "objects_of",
    "put_at",
    "put_back_host",
    "reach_of",
    "reach_with_refresh",
    "seed_generators",
    "tensors_kept_by",
    "walk",
    "with_objects",
]
