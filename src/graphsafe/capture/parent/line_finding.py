"""One finding at a line of the user's code, in the words of its rule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from graphsafe.capture.shared.places import location
from graphsafe.report.model import CallSite, Finding, Level, Limit, Source
from graphsafe.rulebook.book import Rule


def finding_at(
    frame: CallSite | None,
    rule: Rule,
    how: str | None,
    level: Level,
    words: Mapping[str, str],
    because: str,
    data: Mapping[str, Any],
    device: str | None,
    source: Source,
    why: str | None = None,
) -> Finding | Limit:
    """Return a finding, or a limit if no line of the user's code is known. `level` is the rulebook's.

    `how` selects the rule's message and `words` fill its placeholders; `because` describes the observation; `why`
    replaces the rule's own reason.
    """
    match = next((match for match in rule.matches if how in match.how), None)
    words = {"expr": "the step", "value": "a value", **words}
    message = ((match and match.message) or rule.message).format_map(words)
    if frame is None:
        return Limit("no-line", f"{rule.code} {rule.name}", message)
    return replace(
        rule.about(location(frame, None), words, data),
        level=rule.level_of(level),
        confidence="proven" if source == "capture" else "likely",
        source=source,
        device=device,
        message=message,
        why=f"{why or rule.short_why} {because}".rstrip(),
        fix=((match and match.fix_short) or rule.fix_short).format_map(words),
    )
