"""Puts the probes into the form of a report: places instead of frames, and no absolute paths."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from graphsafe.capture.answers.probes import SeenEvent
from graphsafe.capture.shared.places import shown
from graphsafe.report.model import CallSite
from graphsafe.report.probes.probe import ABSOLUTE, PLACE_OF, is_unreported
from graphsafe.report.probes.step import Line


def reported(answer: Any) -> Any:
    """Return an answer as the JSON values that a report shows."""
    if isinstance(answer, Mapping):
        return {str(key): reported(value) for key, value in answer.items()}
    if isinstance(answer, (list, tuple)):
        return [reported(value) for value in answer]
    if not is_dataclass(answer):
        return answer
    found = {}
    for one in fields(answer):
        value = getattr(answer, one.name)
        if PLACE_OF in one.metadata:
            value = place_of(getattr(answer, one.metadata[PLACE_OF])) or value
        elif one.metadata == ABSOLUTE and value is not None:
            path, _, line = value.rpartition(":")
            value = f"{shown(path)}:{line}"
        if not is_unreported(one):
            found[one.name] = reported(value)
    return found


def by_line(events: Iterable[SeenEvent]) -> tuple[Line, ...]:
    """Return the lines of a warm step, and how often each kind of event happened there."""
    found: dict[str, dict[str, int]] = {}
    for event in events:
        place = None if event.first_only else place_of(event.frames)
        if place is not None:
            kinds = found.setdefault(place, {})
            kinds[event.kind] = kinds.get(event.kind, 0) + event.count
    return tuple(Line(place, kinds) for place, kinds in sorted(found.items()))


def place_of(frames: Sequence[CallSite]) -> str | None:
    """Return `model.py:12` for the line to blame, which is the last frame; None without a known line."""
    return f"{shown(frames[-1].path)}:{frames[-1].line}" if frames else None
