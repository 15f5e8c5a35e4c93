"""The files in which the reference child passes values to the other children."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path

import torch

from graphsafe.capture.child.compare import Spread
from graphsafe.capture.child.session import load_values

GIVEN, EXPECTED = "given.pt", "reference.pt"


@dataclass
class Given:
    """The state that construction left in the reference, by path."""

    digests: Mapping[str, str]
    hosts: Mapping[str, str]
    values: Mapping[str, torch.Tensor]

    @staticmethod
    def load(folder: Path) -> Given:
        found: Given = load_values(folder / GIVEN)
        return found


@dataclass
class Stepped:
    """One eager step."""

    outputs: Mapping[str, torch.Tensor]
    hosts: Mapping[str, str]
    state: Mapping[str, str] = field(default_factory=dict)
    "Path -> digest after the step."
    values: Mapping[str, torch.Tensor] = field(default_factory=dict)
    "The values of state that has changed since the warm-up."
    advance: int | None = None
    "How far the step advanced the generator."
    written: Sequence[str] = ()
    "The inputs that the step changed."


@dataclass
class Expected:
    """The steps with which replays are compared, and how much further eager runs of these steps may differ."""

    steps: Sequence[Stepped]
    noise: Spread
    rounding: Spread | None
    refused: str | None
    "The reason why the steps are plain eager steps, not steps along the path of a capture."
    start: Mapping[str, torch.Tensor]
    "The state that construction left and that steps change."
    first_step: Stepped | None
    "The first step on the inputs of replay 1; None if the first step is like the others."
    events: Sequence[Stepped]
    "The steps after the target's events."
    repeats: bool
    "Whether eager runs of these steps agree bit for bit."
    host_counts: Set[str] = frozenset()
    "Tensors of the state that only the host increments; replays leave them as they are."

    @staticmethod
    def load(folder: Path) -> Expected:
        found: Expected = load_values(folder / EXPECTED)
        return found
