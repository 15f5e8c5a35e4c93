"""A baseline as data: findings that were accepted, and what people wrote about them."""

from __future__ import annotations

import datetime
from dataclasses import dataclass

from graphsafe.report.model import Confidence


@dataclass(frozen=True, slots=True)
class Identity:
    """What a finding is known by. It names no line, so that code above it may change."""

    path: str
    "From the project root, with forward slashes."
    function: str
    "Qualified name; empty at module level."
    code: str
    text: str
    "The code under the finding, without what a formatter changes."


@dataclass(frozen=True, slots=True)
class Entry:
    """Up to `count` findings of one identity."""

    identity: Identity
    count: int = 1
    confidence: Confidence | None = None
    "`possible` for what only a scan with `--confidence possible` finds."
    owner: str | None = None
    reason: str | None = None
    expires: datetime.date | None = None
    "The last day on which the entry holds."
    line: int = 1
    "Where it begins in its file."

    def is_expired(self, today: datetime.date) -> bool:
        return self.expires is not None and today > self.expires
