"""What a step can reach and change: every tensor, host value, generator and container behind its callable and its
arguments, by path; and how it is put back.

Nothing here runs the user's code (no property, no `__getattr__`, no `__len__`, no `__repr__`), with one exception: a
tensor that wraps others is asked for them by `__tensor_flatten__`.
"""

from graphsafe.capture.state.containers import MISSING, StateError, held_at, put_at, put_back_host
from graphsafe.capture.state.reach import HostValue, Reach
from graphsafe.capture.state.snapshot import Bindings, Snapshot
from graphsafe.capture.state.undo import Undo, copies_of
from graphsafe.capture.state.walk import inputs_of, objects_of, reach_of, seed_generators, walk

__all__ = [
    "MISSING",
    "Bindings",
    "HostValue",
    "Reach",
    "Snapshot",
    "StateError",
    "Undo",
    "copies_of",
    "held_at",
    "inputs_of",
    "objects_of",
    "put_at",
    "put_back_host",
    "reach_of",
    "seed_generators",
    "walk",
]
