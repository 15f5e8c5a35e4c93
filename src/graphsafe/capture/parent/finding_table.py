"""The findings of one device and bucket: one for each code and line, in the words of the rulebook."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from graphsafe.capture.parent.seen import Seen
from graphsafe.capture.parent.wording import Words
from graphsafe.capture.shared.places import chain, location, text_at
from graphsafe.report.model import LEVELS, CallSite, Finding, Level, Limit, Region
from graphsafe.rulebook.book import Rulebook

Key = tuple[str, str, int]
"The code, the file and the line of a finding."


class FindingTable:
    """Collects findings, and limits for facts without a known line of the user's code."""

    def __init__(self, seen: Seen, book: Rulebook) -> None:
        self._seen = seen
        self._book = book
        self.found: dict[Key, Finding] = {}
        self.limits: list[Limit] = []

    def add(
        self,
        code: str,
        frames: Sequence[CallSite],
        span: Sequence[int] | None = None,
        *,
        level: Level | None = None,
        expr: str | None = None,
        value: str = "a device value",
        count: int = 1,
        data: Mapping[str, Any] | None = None,
        repair: str = "",
        region: Region | None = "captured",
        here: str = "",
    ) -> None:
        """Add a finding at the last of `frames`.

        If the line has a finding of the same code, the two become one, at the more severe level and with the data of
        both.
        """
        rule = self._book.rules.get(code)
        if rule is None:
            self.limits.append(Limit("unknown-rule", code, "the rulebook has no rule of this code"))
            return
        if not frames:
            self.limits.append(
                Limit("no-line", f"{code} {rule.name}", expr or "no line of the user's code was running")
            )
            return
        at = location(frames[-1], span)
        key = (code, at.path, at.line)
        if key in self.found:
            known = self.found[key]
            severest = max(lowered(level or rule.level, self._seen), known.level, key=LEVELS.index)
            self.found[key] = replace(
                known, count=known.count + count, level=severest, data={**known.data, **(data or {})}
            )
            return
        expr = expr or text_at(frames[-1], span)
        about = rule.about(at, Words(expr=expr, value=value), data or {})
        self.found[key] = replace(
            about,
            level=lowered(level or rule.level, self._seen),
            confidence="proven" if self._seen.source == "capture" else "likely",
            source=self._seen.source,
            device=self._seen.device,
            region=region,
            call_chain=chain(frames),
            why=about.why + here,
            fix=about.fix + repair,
            count=count,
        )


def lowered(level: Level, seen: Seen) -> Level:
    """Lower an error to a warning.

    A correct replay, or a capture from shapes that passed, proves that the finding's cause does not break this step.
    """
    capture = seen.probes.capture
    harmless = "inconclusive" if capture.from_shapes and capture.status == "pass" else "ready"
    return "warning" if level == "error" and seen.verdict == harmless else level


def at_configured_levels(findings: Iterable[Finding], seen: Seen, book: Rulebook) -> list[Finding]:
    """Return the findings with the levels that the configuration gives to rules, lowered if a correct replay proved
    them harmless."""
    return [replace(one, level=lowered(book.rules[one.code].level_of(one.level), seen)) for one in findings]


def merged(findings: Iterable[Finding]) -> list[Finding]:
    """Merge findings over the buckets of one device: the same code on the same line is one finding, at its worst
    level."""
    found: dict[tuple[Any, ...], Finding] = {}
    for finding in findings:
        key = (finding.device, finding.code, finding.location.path, finding.location.line)
        known = found.get(key)
        if known is None or LEVELS.index(finding.level) > LEVELS.index(known.level):
            found[key] = finding
    return list(found.values())
