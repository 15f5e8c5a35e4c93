"""Runs the cases in rule files. Each case is scanned as a project with one file."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from graphsafe.config import Config
from graphsafe.report.model import Report
from graphsafe.rulebook.book import UNREADABLE, Rulebook, load_pack, load_rulebook
from graphsafe.rulebook.rule import Case, Rule
from graphsafe.rulebook.rulefile import expected_lines
from graphsafe.scan.api import scan_paths


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one case. `problem` is None if the case passed."""

    code: str
    kind: Literal["bad", "good"]
    title: str
    problem: str | None


def run_cases(packs: Sequence[Path] = ()) -> Iterator[Outcome]:
    """Run the cases of some packs, or of graphsafe's own rules, and yield their results. Raises RulebookError."""
    if packs:
        for pack in packs:
            rulebook, codes = load_pack(pack)
            yield from _run(rulebook, codes)
    else:
        rulebook = load_rulebook()
        yield from _run(rulebook, frozenset(rulebook.rules))


def _run(rulebook: Rulebook, codes: frozenset[str]) -> Iterator[Outcome]:
    for rule in rulebook.rules.values():
        if rule.code in codes:
            for case in rule.bad:
                yield Outcome(rule.code, "bad", case.title, _problem(rule, case, rulebook))
            for case in rule.good:
                yield Outcome(rule.code, "good", case.title, _problem(rule, case, rulebook))


def _problem(rule: Rule, case: Case, rulebook: Rulebook) -> str | None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder).resolve() / "case.py"
        path.write_text(case.code, encoding="utf-8")
        config = Config(root=path.parent, select=(rule.code,))
        confidence: Literal["likely", "possible"] = "possible" if case.confidence == "possible" else "likely"
        return _difference(rule, case, scan_paths([path], config, confidence=confidence, rulebook=rulebook))


def _difference(rule: Rule, case: Case, report: Report) -> str | None:
    """Return how a report differs from its case, or None. Only this rule's findings are compared, and notes are
    compared only if they are expected."""
    unread = next((one for one in report.findings if one.code == UNREADABLE != rule.code), None)
    if unread is not None:
        return f"line {unread.location.line} of the case: {unread.message}"
    expected = expected_lines(rule.code, case.code)
    found = {
        finding.location.line
        for finding in report.findings
        if finding.code == rule.code
        and finding.suppressed is None
        and (finding.level == case.level if case.level else finding.level != "note" or rule.level == "note")
    }
    problems = [
        f"{verb} on line {', '.join(map(str, sorted(lines)))}"
        for verb, lines in (("not found", expected - found), ("found", found - expected))
        if lines
    ]
    return "; ".join(problems) or None
