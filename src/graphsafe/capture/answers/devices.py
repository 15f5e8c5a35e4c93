"""The answer of the child that only looks: the GPUs of this machine."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Devices:
    """The names of the GPUs."""

    names: tuple[str, ...] = ()
