"""Counts for each graph the inputs of its size that another graph was given: `x[:3].copy_(batch)`, and then the graph
for four rows is replayed although there is one for three.

An input is of a graph's size if the one copy since the last replay filled exactly the memory that the graph reads. The
two graphs were captured by the same line and have the same operations.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from graphsafe.capture.device.sim.graphs import CUDAGraph
from graphsafe.run.child.names import Place, place_of

_MOST = 64
"Number of copies before a replay from which on its input is not known."


@dataclass(eq=False, slots=True)
class _Inputs:
    """The memory outside its pool that a graph reads."""

    places: frozenset[Place]
    passed_over: int = 0
    "How often another graph was given an input of this graph's size."


class Asked:
    def __init__(self) -> None:
        self._inputs: weakref.WeakKeyDictionary[CUDAGraph, _Inputs] = weakref.WeakKeyDictionary()
        self._given: list[Place] = []
        "The memory that copies filled since the last replay."

    def captured(self, graph: CUDAGraph, inputs: Iterable[torch.Tensor]) -> Callable[[], int]:
        """Note the memory outside its pool that a graph reads. The result returns how often it was passed over."""
        found = self._inputs[graph] = _Inputs(
            frozenset(place for one in inputs if (place := place_of(one)) is not None)
        )
        return lambda: found.passed_over

    def ran(self, name: str, args: Sequence[Any]) -> None:
        """Note an eager operation."""
        if name == "aten::copy_" and self._inputs and len(self._given) < _MOST:
            place = place_of(args[0])
            self._given += [] if place is None else [place]

    def replaying(self, graph: CUDAGraph) -> None:
        """Count the graphs that would have been the right ones for the input."""
        given, self._given = self._given, []
        if not 0 < len(given) < _MOST:
            return
        own = self._inputs[graph].places if graph in self._inputs else frozenset()
        for other, inputs in list(self._inputs.items()):
            if _asked(given, inputs.places - own, own) and _kind(other) == _kind(graph):
                inputs.passed_over += 1


def _asked(given: Sequence[Place], wanted: Iterable[Place], own: Iterable[Place]) -> bool:
    """Return whether a copy filled one of the `wanted` places, and no other one wrote the input that holds it."""
    for place in wanted:
        holders = [one for one in own if one[0] <= place[0] and place[1] <= one[1]]
        filled = [one for one in given if any(a <= one[0] and one[1] <= b for a, b in holders)]
        if filled == [place]:
            return True
    return False


def _kind(graph: CUDAGraph) -> tuple[Any, ...]:
    """Return what is the same for the graphs of several sizes: the capture's line, and the operations."""
    session = graph.captured_in
    return None if session is None else session.frames[-1:], [node.op for node in graph.nodes]
