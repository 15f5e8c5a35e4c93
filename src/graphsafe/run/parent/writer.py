"""Writes the findings about one process, in the words of the rulebook.

Lines and graphs are named in messages as `reload (engine.py:210)` and `graph 8 of decode.py:88`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from graphsafe.capture.parent.finding_table import finding_at
from graphsafe.capture.shared.places import line_text, location
from graphsafe.report.model import CallSite, Finding, Level, Limit, Region, Source, Span
from graphsafe.report.text import count
from graphsafe.rulebook.book import Rulebook
from graphsafe.run.parent.seen import SeenGraph, SeenProcess


def by(call: CallSite) -> str:
    """Return the text for a line: its function and the line, or only the line at module level."""
    return f"{call.function} ({line_text(call)})" if call.function else line_text(call)


def named(graph: SeenGraph) -> str:
    frames = graph.facts.frames
    return f"graph {graph.name} of {line_text(frames[-1])}" if frames else f"graph {graph.name}"


def all_named(graphs: Sequence[SeenGraph]) -> str:
    if len(graphs) == 1:
        return named(graphs[0])
    return f"{named(graphs[0])} and {count(len(graphs) - 1, 'more graph')}"


class Writer:
    """The findings about one process, and the limits: facts whose line is unknown."""

    def __init__(self, process: SeenProcess, book: Rulebook) -> None:
        self.process = process
        self.book = book
        self.graphs = {graph.facts.number: graph for graph in process.graphs}
        self.found: list[Finding] = []
        self.limits: list[Limit] = []

    def about(
        self,
        graph: SeenGraph,
        code: str,
        line: CallSite | None,
        words: Mapping[str, str],
        data: Mapping[str, Any] = MappingProxyType({}),
        certain: bool = False,
        **more: Any,
    ) -> None:
        data = {"graph": graph.name, **data}
        self.add(code, line, words, data, device=graph.facts.device, certain=certain, **more)

    def add(
        self,
        code: str,
        line: CallSite | None,
        words: Mapping[str, str],
        data: Mapping[str, Any],
        *,
        because: str = "",
        device: str | None = None,
        certain: bool = True,
        level: Level | None = None,
        number: int = 1,
        region: Region = "step",
        span: Span | None = None,
        text: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Add a finding. `text` replaces the rule's own message, reason and fix."""
        rule = self.book.rules[code]
        around = rule.around_graphs if region == "step" else None
        data = {"process": self.process.name, **data}
        source: Source = "simulate" if self.process.facts.evidence == "predicted" else "capture"
        why = None if around is None else around.why
        made = finding_at(line, rule, None, level or rule.level, words, because, data, device, source, why)
        if line is None or isinstance(made, Limit):
            self.limits += [made] if isinstance(made, Limit) else []
            return
        confidence = made.confidence if certain else "likely"
        fix = made.fix if around is None else around.fix
        self.found.append(
            replace(
                made,
                confidence=confidence,
                region=region,
                count=max(number, 1),
                location=location(line, span),
                **{"fix": fix, **text},  # type: ignore[arg-type]
            )
        )
