"""The base of all probes: their common fields, and how the formats of a report show them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from graphsafe.report.model import CallSite, Span
from graphsafe.report.text import first_line

ProbeStatus = Literal["pass", "fail", "skipped", "crashed", "timeout"]
Unit = Literal["count", "bytes", "ms"]

LATER: Mapping[str, object] = {"later": True}
PLACE_OF = "place of"
PLACE: Mapping[str, object] = {PLACE_OF: "frames"}
"Metadata of a field that the parent process fills in: the line at which the unreported field `frames` ends."

ABSOLUTE: Mapping[str, object] = {"absolute": True}
"Metadata of a field with a place. Its path is absolute in a child's result and relative in a report."


def later(default: Any = None) -> Any:
    """Make a field that older reports do not have. New reports have it, as null if the value is unknown."""
    return field(default=default, metadata=LATER)


def unreported(default: Any = None) -> Any:
    """Make a field that a child sends to its parent, but that is not part of a report."""
    return field(default=default, metadata={**LATER, "unreported": True})


def is_later(one: Any) -> bool:
    """Return whether an older report may lack a dataclass field."""
    return "later" in one.metadata


def is_unreported(one: Any) -> bool:
    """Return whether a dataclass field was made by `unreported`."""
    return "unreported" in one.metadata


@dataclass(frozen=True, slots=True)
class Error:
    """The first exception of an exception chain."""

    type: str | None = field(default=None, kw_only=True, metadata=LATER)
    message: str
    chain: tuple[str, ...] | None = later()
    place: str | None = field(default=None, kw_only=True, metadata={**LATER, **PLACE})
    frames: tuple[CallSite, ...] = unreported(())
    "The user's frames of the error, outermost first."
    span: Span | None = unreported()
    "The expression that the last frame was running. It is None before Python 3.11."


@dataclass(frozen=True, slots=True)
class Number:
    """A number of a probe. A change of this number from one report to another is reported."""

    name: str
    value: float | None
    unit: Unit


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of plain text under a title. The first row is the heads of the columns."""

    title: str
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class Probe:
    """A probe of a report. Its fields are the keys of its JSON format.

    Formats get plain text from a probe and escape it themselves.
    """

    status: ProbeStatus = "skipped"
    reason: str | None = None
    "Why the probe was skipped, crashed or timed out."
    calls: tuple[str, ...] | None = later()
    "The calls that led to an error of the target, outermost first."

    @property
    def answered(self) -> bool:
        """Whether the probe has passed or failed."""
        return self.status in ("pass", "fail")

    def told(self) -> str:
        """Return the probe's result in one line, or why there is no result. Return "" if neither is known."""
        why = first_line(self.reason or "")
        return (self.text() or why) if self.answered else why

    def text(self) -> str:
        """Return the probe's result in one line."""
        return ""

    def sentences(self) -> Sequence[str]:
        """Return the sentences that follow the result on a terminal."""
        return ()

    def tables(self) -> Sequence[Table]:
        """Return the tables, for formats that can show them."""
        return ()

    def numbers(self) -> Sequence[Number]:
        """Return the numbers to compare with an earlier report."""
        return ()


def error_text(error: Error | None) -> str:
    """Return the first line of an error's message, or "" without an error."""
    return "" if error is None else first_line(error.message)
