"""Finds state that a break binds to new tensors, and rebinds it to the captured tensors after each visit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from graphsafe.capture.child.state import held_at, put_at, put_back_host, reach_of
from graphsafe.capture.child.targets import Subject


class Slots:
    """The places in the target's state of some paths.

    Each place is found once: a walk over everything the step can reach costs milliseconds. The walk is repeated only if
    a break replaces the object that holds the tensor.
    """

    def __init__(self, subject: Subject, paths: Sequence[str]) -> None:
        self._subject = subject
        self._paths = paths
        reach = reach_of(subject) if paths else None
        self.before: Mapping[str, torch.Tensor | None] = {}
        "The tensors that the places held at the first visit of the break."
        self._places: dict[str, tuple[Any, Any]] = {}
        if reach is not None:
            self.before = {path: reach.tensors.get(path) for path in paths}
            self._places = {path: reach.owners[path] for path in paths if path in reach.owners}
        self._moving = False

    def look(self) -> None:
        """Check, after the first visit, which places still exist in the same objects."""
        if not self._paths:
            return
        now = reach_of(self._subject).owners
        same = all(path in now and now[path][0] is place[0] for path, place in self._places.items())
        in_tuple = any(isinstance(place[0], tuple) for place in self._places.values())
        self._moving = not same or in_tuple or len(self._places) < len(self._paths)

    def tensors(self) -> dict[str, torch.Tensor]:
        """Return the tensors that the places hold now."""
        if self._moving:
            now = reach_of(self._subject).tensors
            return {path: now[path] for path in self._paths if path in now}
        found = {path: held_at(*place) for path, place in self._places.items()}
        return {path: value for path, value in found.items() if issubclass(type(value), torch.Tensor)}

    def bind(self, path: str, tensor: torch.Tensor) -> None:
        if not self._moving:
            put_at(*self._places[path], tensor)
            return
        now = reach_of(self._subject)
        if path in now.owners:
            put_back_host(now, path, tensor)
