"""A rule as data: everything that a rule file says about one rule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from graphsafe.report.model import LEVELS, Confidence, Finding, Level, Location
from graphsafe.rulebook.vocabulary import EventKind


@dataclass(frozen=True, slots=True)
class Match:
    """Events that a rule matches. A text or a level that is not None replaces the rule's own."""

    event: EventKind
    how: tuple[str, ...] = ()
    "The ways in which the event may happen. An empty tuple matches every way."
    message: str | None = None
    level: Level | None = None
    why: str | None = None
    fix_short: str | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """An example of the rule: the source of a module. A comment `# expect: CODE` marks each line that the rule must
    find."""

    title: str
    code: str
    level: Level | None = None
    "The level of the case's findings, if it differs from the rule's."
    confidence: Confidence | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """A measurement, and the torch version with which it was made."""

    torch: str
    device: str | None = None
    atlas: tuple[str, ...] = ()
    "The names of snippets in rules/ops/torch-X.Y.json."
    says: str


@dataclass(frozen=True, slots=True)
class AroundGraphs:
    """The texts of a rule for host code around graphs (region `step`): what the line costs, and what to write
    instead."""

    why: str
    fix: str


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule, as in its file.

    Texts are Markdown. `message` and `fix_short` contain placeholders for the words of an event.
    """

    code: str
    name: str
    level: Level
    summary: str
    what: str
    why: str
    fix: str
    fix_short: str
    message: str
    around_graphs: AroundGraphs | None = None
    """The texts for findings in host code around graphs. Such findings are warnings at most. Only rules about captures
    have these texts."""
    error_text: tuple[str, ...] = ()
    checklist: tuple[int, ...] = ()
    "Items of NVIDIA's checklist for PyTorch and CUDA graphs."
    dynamo: tuple[str, ...] = ()
    "Ids in Dynamo's registry of graph breaks."
    torch: str = ""
    "The torch versions for which the rule holds. An empty string stands for all versions."
    matches: tuple[Match, ...] = ()
    "The events that the rule matches. It is empty for a rule that only `capture` or graphsafe itself reports."
    bad: tuple[Case, ...] = ()
    good: tuple[Case, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    see_also: tuple[str, ...] = ()
    instead_of: tuple[str, ...] = ()
    "More general rules. If this rule has a finding on a line, the findings of these rules on the line are left out."
    fixes: tuple[str, ...] = ()
    "Names of fixes. The first fix that suits a finding is used."
    configured: Level | None = None
    "The level that the configuration gives to the rule. It replaces the rule's own level."

    @property
    def short_why(self) -> str:
        """The first paragraph of `why`, in one line."""
        return " ".join(self.why.strip().split("\n\n")[0].split())

    def level_of(self, found: Level | None = None) -> Level:
        """Return the level of a finding. `found` is the level that the rulebook gives to the matching event, or None
        for the rule's own level. If `found` is below the rule's own level, a configured level can lower it but not
        raise it.
        """
        found = found or self.level
        if self.configured is None:
            return found
        is_lowered = LEVELS.index(found) < LEVELS.index(self.level)
        return min(found, self.configured, key=LEVELS.index) if is_lowered else self.configured

    def texts(self, how: str | None) -> tuple[str, str, str]:
        """Return the message, the reason and the fix for events with this `how` (such as `pinned`). They contain
        placeholders."""
        match = next((match for match in self.matches if how in match.how), None)
        own = (None, None, None) if match is None else (match.message, match.why, match.fix_short)
        return own[0] or self.message, own[1] or self.short_why, own[2] or self.fix_short

    def about(
        self, location: Location, words: Mapping[str, str], data: Mapping[str, Any], how: str | None = None
    ) -> Finding:
        """Return a finding of `scan` about a file, a comment or a baseline entry. Such a finding has no call chain."""
        message, why, fix = self.texts(how)
        return Finding(
            code=self.code,
            rule=self.name,
            level=self.level_of(),
            confidence="likely",
            source="scan",
            device=None,
            location=location,
            call_chain=(),
            message=message.format_map(words),
            why=why,
            fix=fix.format_map(words),
            data=data,
        )
