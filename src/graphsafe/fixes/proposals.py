"""Adds fixes, as edits, to the findings of a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib import import_module

from graphsafe.fixes.code import Code, Fix, Proposal
from graphsafe.report.model import Finding, Report
from graphsafe.report.source import Lines
from graphsafe.rulebook.rule import Rule
from graphsafe.rulebook.vocabulary import FIXES

SAFE, UNSAFE = "safe", "unsafe"
"The values of `data.edits`, for a finding with edits."


def with_edits(report: Report, rules: Mapping[str, Rule], source: Lines) -> Report:
    """Return the report with `edits`, and with a description of them in `data`.

    The description has the keys `edits` (`safe` or `unsafe`), `edits_title` and `edits_risk`, which says when unsafe
    edits change a result. `source` returns the lines that were scanned. A file that the running Python cannot parse
    gets no edits.
    """
    codes: dict[str, Code | None] = {}
    findings = []
    for finding in report.findings:
        names = rules[finding.code].fixes if finding.code in rules else ()
        path = finding.location.path
        if names and path not in codes:
            codes[path] = _code(source(path))
        code = codes.get(path) if names else None
        fix = fix_of(finding, names, code) if code is not None else None
        if fix is not None:
            risk = {"edits_risk": fix.risk} if fix.risk else {}
            said = {"edits": UNSAFE if fix.risk else SAFE, "edits_title": fix.title, **risk}
            finding = replace(finding, edits=fix.edits, data={**finding.data, **said})
        findings.append(finding)
    return replace(report, findings=tuple(findings))


def fix_of(finding: Finding, names: Sequence[str], code: Code) -> Fix | None:
    """Return the first of a rule's fixes that applies to the finding, or None.

    Before Python 3.12, an expression in an f-string cannot hold the string's own quotes or a backslash. So a fix
    inside an f-string must not contain a quote or a backslash.
    """
    fix = next((fix for name in names if (fix := _proposal(name)(code, finding)) is not None), None)
    if fix is None or not code.is_in_string(finding.location):
        return fix
    return None if any(mark in edit.text for edit in fix.edits for mark in "\"'\\\n") else fix


@cache
def _proposal(name: str) -> Proposal:
    module, _, function = FIXES[name].partition(".")
    proposal: Proposal = getattr(import_module(f"graphsafe.fixes.{module}"), function)
    return proposal


def _code(lines: Sequence[str] | None) -> Code | None:
    try:
        return Code(lines) if lines is not None else None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
