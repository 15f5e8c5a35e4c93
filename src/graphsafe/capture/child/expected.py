"""The files through which the reference child passes values to the other children."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

import torch

from graphsafe.capture.child.compare import Spread

GIVEN, EXPECTED = "given.pt", "reference.pt"


@dataclass
class ConstructedState:
    """The state after construction in the reference child, by path."""

    digests: Mapping[str, str]
    hosts: Mapping[str, str]
    values: Mapping[str, torch.Tensor]
    random: tuple[Any, ...]
    "The positions of the random number generators after construction."


@dataclass
class StepResult:
    """The results of one eager step."""

    outputs: Mapping[str, torch.Tensor]
    hosts: Mapping[str, str]
    state: Mapping[str, str] = field(default_factory=dict)
    "Path -> digest after the step."
    values: Mapping[str, torch.Tensor] = field(default_factory=dict)
    "The values of state that changed after the warm-up."
    advance: int | None = None
    "How far the step advanced the random number generator."
    filled: Sequence[str] = ()
    "The queues into which the step put tensors. A replay puts nothing into them."
    given: Mapping[str, str] = field(default_factory=dict)
    "Input -> digest before the step."
    refreshed: Mapping[str, torch.Tensor] = field(default_factory=dict)
    "Small tensors that the refresh wrote and that steps leave alone, with their values."
    released: Sequence[str] = ()
    "State of which the refresh wrote only a part. Later rounds do not put this state back."
    hashed: Sequence[str] = ()
    "Paths in `state` whose state changed but is too large for `values`."
    path: str = ""
    "The name of the path of operations that the step took, if it was watched."
    is_shown: bool = True
    "Whether the results would show a small error in the operations in which this path differs from the usual path."

    @property
    def written(self) -> list[str]:
        """The inputs that the step changed."""
        return [path for path, digest in self.given.items() if self.state.get(path) != digest]


@dataclass
class Expected:
    """The steps with which replays are compared, and how far other eager runs of these steps may differ."""

    steps: Sequence[StepResult]
    noise: Spread
    rounding: Spread | None
    refused: str | None
    "The reason why these are plain eager steps and do not follow the path of a capture."
    start: Mapping[str, torch.Tensor]
    "For each piece of state that steps change: its value as construction left it."
    first_step: StepResult | None
    "The first step, run on the inputs of replay 1; None if the first step is like later steps."
    events: Sequence[StepResult]
    "The steps after the target's events."
    repeats: bool
    "Whether eager runs of these steps agree bit for bit."
    host_counts: Set[str] = frozenset()
    "Counts in the state: tensors that only the host increments. A replay does not change them."
    refreshed: Set[str] = frozenset()
    "State and inputs that the refresh writes."
    dropped: Set[str] = frozenset()
    "The gradients that the refresh has dropped before each of the steps; see `dropped_gradients.py`."
