"""Joins findings that say the same about one line, because a loop can capture, fail or lose memory there many times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from graphsafe.report.model import CONFIDENCES, Finding, grouped


def once_each(findings: Sequence[Finding]) -> list[Finding]:
    """Return one finding for each line, cause and process. Its count is the sum of the counts, and its data name all
    graphs."""
    return [_joined(same) if len(same) > 1 else same[0] for same in grouped(findings, _cause).values()]


def _cause(finding: Finding) -> tuple[Any, ...]:
    told = (finding.message, finding.why, finding.fix)
    process = finding.data.get("process")
    return (process, finding.device, finding.code, finding.level, finding.region, finding.location, *told)


def _joined(same: Sequence[Finding]) -> Finding:
    surest = max((one.confidence for one in same), key=CONFIDENCES.index)
    graphs = list(dict.fromkeys(one.data["graph"] for one in same if "graph" in one.data))
    data = {"graphs": graphs, **same[0].data} if len(graphs) > 1 else same[0].data
    return replace(same[0], count=sum(one.count for one in same), confidence=surest, data=data)
