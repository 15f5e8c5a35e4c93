"""A baseline as data: accepted findings, and what people wrote about them."""

from __future__ import annotations

import datetime
from dataclasses import dataclass

from graphsafe.report.model import Confidence


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity of a finding. It has no line number, so that code above it may change."""

    path: str
    "The path from the project root, with forward slashes."
    function: str
    "The function's qualified name; empty at module level."
    code: str
    text: str
    "The code under the finding, without changes that a formatter makes."


@dataclass(frozen=True, slots=True)
class Entry:
    """Up to `count` findings of one identity."""

    identity: Identity
    count: int = 1
    confidence: Confidence | None = None
    "The confidence: `possible` for a finding that only a scan with `--confidence possible` reports."
    owner: str | None = None
    reason: str | None = None
    expires: datetime.date | None = None
    "The last day on which the entry holds."
    line: int = 1
    "The line where the entry begins in its file."

    def is_expired(self, today: datetime.date) -> bool:
        return self.expires is not None and today > self.expires
