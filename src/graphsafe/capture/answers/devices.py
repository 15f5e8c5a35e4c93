"""The GPUs of this machine: the answer of the child that lists them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Devices:
    """The names of the GPUs."""

    names: tuple[str, ...] = ()
