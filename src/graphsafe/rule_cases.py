"""Checks rule files. Runs each of their cases as a project of one file, and also finds faults that no case shows."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from graphsafe.config import Config
from graphsafe.report.model import Report
from graphsafe.rulebook.book import UNREADABLE, Rulebook, load_pack, load_rulebook
from graphsafe.rulebook.rule import Case, Rule
from graphsafe.rulebook.rulefile import expected_lines
from graphsafe.scan.api import scan_paths


def run_cases(packs: Sequence[Path] = ()) -> Iterator[str | None]:
    """Run the cases of some packs, or of graphsafe's own rules. Yield for each case a line that describes its problem,
    or None if it passed. Raises RulebookError."""
    for rulebook, rules, _ in _loaded(packs):
        for rule in rules:
            for kind, cases in (("bad", rule.bad), ("good", rule.good)):
                for case in cases:
                    problem = _problem(rule, case, rulebook)
                    yield f"{rule.code} {kind} case {case.title!r}: {problem}" if problem else None


def rule_faults(packs: Sequence[Path] = ()) -> Iterator[str]:
    """Yield the faults of rules that no case shows, one line each. Raises RulebookError.

    Each of graphsafe's own rules needs its own file and evidence. Only rules about files and comments (GS9) need no
    evidence.
    """
    for rulebook, rules, files in _loaded(packs):
        tables = [json.loads(path.read_bytes()) for path in (rulebook.home / "ops").glob("torch-*.json")]
        measured = {name for table in tables for name in table["entries"]}
        for rule in rules:
            code, name = rule.code, f"{rule.code}-{rule.name}.yaml"
            unknown = sorted(set(rule.see_also) - rulebook.rules.keys())
            if unknown:
                yield f"{code}: see_also names {', '.join(unknown)}, and there is no such rule"
            unmeasured = sorted({each for one in rule.evidence for each in one.atlas} - measured)
            if measured and unmeasured:
                yield f"{code}: atlas names {', '.join(unmeasured)}, unknown to rules/ops/torch-*.json"
            if code.startswith("GS") and not code.startswith("GS9") and not rule.evidence:
                yield f"{code}: give `evidence`, or the source of its facts (rules/README.md)"
            if code.startswith("GS") and files and name not in files:
                yield f"{code}: its file must be called {name}"


def _loaded(packs: Sequence[Path]) -> Iterator[tuple[Rulebook, list[Rule], set[str]]]:
    """Yield a rulebook, the rules in it to check, and the names of their files, which a wheel does not have."""
    if not packs:
        rulebook = load_rulebook()
        yield rulebook, [*rulebook.rules.values()], {path.name for path in rulebook.home.glob("*.yaml")}
    for pack in packs:
        rulebook, codes = load_pack(pack)
        files = {path.name for path in pack.iterdir()} if pack.is_dir() else {pack.name}
        yield rulebook, [rule for rule in rulebook.rules.values() if rule.code in codes], files


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
