"""SARIF 2.1.0, for code scanning and editors. Each report is one run."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from graphsafe.report.json_form import escaped
from graphsafe.report.model import Edit, Finding, Location, Report, in_order, is_in_baseline, with_fix
from graphsafe.report.no_line import unplaced

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_LINK = re.compile(r"\[([^\[\]]*)\](?=\()")
"""Matches brackets before a parenthesis, as in `table[key](x)`. They would be a link in SARIF's plain text."""
_HALF = re.compile("[\ud800-\udc7f\udd00-\udfff]")
"""Matches a lone surrogate that stands for no byte of a file name."""
RuleTexts = Mapping[str, Any]
"""Code -> its `Rule`. This class is not imported from graphsafe.rulebook, because graphsafe.rulebook imports this
package."""
_ROOT = "%SRCROOT%"
_ABOUT = "https://docs.pytorch.org/docs/stable/notes/cuda.html#constraints"
"""PyTorch's page on CUDA graphs and their constraints. graphsafe describes each rule in the rule's `help`."""


def render_sarif(reports: Sequence[Report], rules: RuleTexts) -> str:
    """Return the SARIF file.

    `rules` contains the help texts by code. A code without help texts is shown by its name only.
    """
    runs = [_run(report, rules) for report in reports]
    whole = {"$schema": _SCHEMA, "version": "2.1.0", "runs": runs}
    return escaped(json.dumps(whole, indent=2, ensure_ascii=False)) + "\n"


def _run(report: Report, rules: RuleTexts) -> dict[str, Any]:
    findings = in_order(report.findings)
    names = {finding.code: finding.rule for finding in findings}
    codes = sorted(names)
    # A SARIF result needs a line: readers refuse the file if a result has none.
    named = ("graphsafe", report.command, report.target, report.name)
    levels = [next((one.level for one in unplaced([limit])), "note") for limit in report.limits]
    return {
        "tool": {
            "driver": {
                "name": report.tool.name,
                "semanticVersion": report.tool.version,
                "informationUri": _ABOUT,
                "rules": [_rule(code, names[code], rules) for code in codes],
            }
        },
        # Code scanning refuses a file in which two runs have the same id.
        "automationDetails": {"id": "/".join(filter(None, named)) + "/"},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {_ROOT: {"description": {"text": "The directory in which graphsafe ran."}}},
        "invocations": [
            {
                "executionSuccessful": True,
                "endTimeUtc": report.created,
                "toolExecutionNotifications": [
                    {"level": level, "descriptor": {"id": limit.kind}, "message": _text(f"{limit.what}: {limit.why}")}
                    for level, limit in zip(levels, report.limits, strict=True)
                ],
            }
        ],
        "results": [_result(finding, codes) for finding in findings],
        "properties": {
            "target": report.target,
            "name": report.name,
            "verdict": report.verdict,
            "evidence": report.evidence,
        },
    }


def _rule(code: str, name: str, rules: RuleTexts) -> dict[str, Any]:
    rule = rules.get(code)
    if rule is None:
        return {"id": code, "name": name, "helpUri": _ABOUT}
    markdown = "\n\n".join(
        f"## {title}\n\n{text.strip()}"
        for title, text in (("What it does", rule.what), ("Why it breaks a capture", rule.why), ("Fix", rule.fix))
        if text.strip()
    )
    return {
        "id": code,
        "name": name,
        "shortDescription": _text(rule.summary),
        "fullDescription": _text(rule.what.strip() or rule.summary),
        "help": {"text": markdown, "markdown": markdown},
        "helpUri": _ABOUT,
        "defaultConfiguration": {"level": rule.level},
    }


def _result(finding: Finding, codes: Sequence[str]) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": codes.index(finding.code),
        "level": finding.level,
        "message": _text(with_fix(finding)),
        "locations": [_location(finding.location)],
        "occurrenceCount": finding.count,
        "partialFingerprints": {"graphsafe/v1": finding.fingerprint},
        "suppressions": _suppressions(finding),
        "properties": {
            "confidence": finding.confidence,
            "source": finding.source,
            "device": finding.device,
            "status": finding.status,
            "why": finding.why,
        },
    }
    if finding.call_chain:
        result["codeFlows"] = [{"threadFlows": [{"locations": _flow(finding)}]}]
    if finding.edits:
        result["fixes"] = [_fix(finding)]
    return result


def _suppressions(finding: Finding) -> list[dict[str, Any]]:
    if finding.suppressed is None:
        return []
    suppression = {"kind": "external" if is_in_baseline(finding) else "inSource"}
    if finding.suppressed.reason:
        suppression["justification"] = finding.suppressed.reason
    return [suppression]


def _flow(finding: Finding) -> list[dict[str, Any]]:
    steps = []
    callees = [call.function for call in finding.call_chain[1:]] + [finding.location.function]
    for call, callee in zip(finding.call_chain, callees, strict=True):
        text = f"{call.function or 'module level'} calls {callee or 'the code'}"
        place = {"artifactLocation": _artifact(call.path), "region": {"startLine": call.line}}
        steps.append({"location": {"physicalLocation": place, "message": _text(text)}})
    return [*steps, {"location": {**_location(finding.location), "message": _text(finding.message)}}]


def _fix(finding: Finding) -> dict[str, Any]:
    replacements = [{"deletedRegion": _region(edit), "insertedContent": {"text": edit.text}} for edit in finding.edits]
    change = {"artifactLocation": _artifact(finding.location.path), "replacements": replacements}
    says = finding.data.get("edits_title")
    text = f"{says} ({finding.data['edits']})" if says else finding.fix or finding.message
    return {"description": _text(text), "artifactChanges": [change]}


def _location(at: Location) -> dict[str, Any]:
    location: dict[str, Any] = {"physicalLocation": {"artifactLocation": _artifact(at.path), "region": _region(at)}}
    if at.function:
        location["logicalLocations"] = [{"fullyQualifiedName": at.function, "kind": "function"}]
    return location


def _region(at: Location | Edit) -> dict[str, int]:
    return {"startLine": at.line, "startColumn": at.column, "endLine": at.end_line, "endColumn": at.end_column}


def _artifact(path: str) -> dict[str, str]:
    escaped = quote(_HALF.sub("?", path).encode("utf-8", "surrogateescape"), safe="/")
    if path.startswith("/"):
        return {"uri": f"file://{escaped}"}
    return {"uri": escaped, "uriBaseId": _ROOT}


def _text(text: str) -> dict[str, str]:
    return {"text": _LINK.sub(r"\\[\1\\]", text)}
