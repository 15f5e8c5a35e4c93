"""Plans of the small modules against what plans.yaml says a person would do, on the simulated device or on a GPU.

`GRAPHSAFE_DEVICE=cuda:0` chooses the device; `GRAPHSAFE_MODULES=name,name` some of the modules."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

pytest.importorskip("torch")

from graphsafe.capture.api import capture_all
from graphsafe.capture.request import CaptureRequest
from graphsafe.config import Config
from graphsafe.report.model import Report

pytestmark = [pytest.mark.child, pytest.mark.slow]
HERE = Path(__file__).parent
PLANS: dict[str, list[list[str]]] = yaml.safe_load((HERE / "plans.yaml").read_text(encoding="utf-8"))
CHOSEN = [name for name in os.environ.get("GRAPHSAFE_MODULES", "").split(",") if name] or list(PLANS)
AGREEMENT = 0.9


def file_of(name: str) -> Path:
    """The file in which a module is built."""
    return next(file for file in sorted((HERE / "modules").glob("*.py")) if f"def build_{name}(" in file.read_text())


@pytest.fixture(scope="module")
def reports() -> dict[str, Report]:
    device = os.environ.get("GRAPHSAFE_DEVICE", "sim:0")
    requests = [
        CaptureRequest(f"{file_of(name)}:build_{name}", Config(root=HERE), devices=(device,), plan=True)
        for name in CHOSEN
    ]
    return dict(zip(CHOSEN, capture_all(requests), strict=True))


def cuts(report: Report) -> list[list[str]]:
    """Each break by the beginning of its first and of its last statement; empty where nothing is captured."""
    if report.plan is None or not report.plan.coverage:
        return []
    found = dict.fromkeys(segment.location for segment in report.plan.segments if segment.location is not None)
    return [[f"{place.path}:{place.line}", f"{place.path}:{place.end_line}"] for place in found]


def agrees(report: Report, expected: list[list[str]]) -> bool:
    found = cuts(report)
    if len(found) != len(expected):
        return False
    for (first, last), wanted in zip(found, expected, strict=True):
        path, _, line = first.rpartition(":")
        lines = Path(path).read_text(encoding="utf-8").splitlines()
        if not lines[int(line) - 1].strip().startswith(wanted[0]):
            return False
        ends = [
            number
            for number in range(int(line), int(last.rpartition(":")[2]) + 1)
            if _begins(lines, number, wanted[-1])
        ]
        if not ends:
            return False
        inside = [lines[number - 1] for number in range(ends[-1] + 1, int(last.rpartition(":")[2]) + 1)]
        indent = len(lines[ends[-1] - 1]) - len(lines[ends[-1] - 1].lstrip())
        if any(text.strip() and len(text) - len(text.lstrip()) <= indent for text in inside):
            return False  # another statement follows in the range
    return True


def _begins(lines: list[str], number: int, text: str) -> bool:
    return lines[number - 1].strip().startswith(text)


def test_the_cuts_are_those_of_a_person(reports: dict[str, Report]) -> None:
    others = {name: cuts(report) for name, report in reports.items() if not agrees(report, PLANS[name])}
    assert len(others) <= (1 - AGREEMENT) * len(reports), others


def test_what_is_captured_is_verified(reports: dict[str, Report]) -> None:
    for name, report in reports.items():
        if PLANS[name] and cuts(report):
            assert report.plan is not None
            assert (report.plan.verified, report.verdict) == (True, "ready-with-breaks"), (name, report.plan.reason)


def test_a_step_of_breaks_alone_is_not_ready(reports: dict[str, Report]) -> None:
    for name, report in reports.items():
        if not PLANS[name]:
            assert report.verdict == "not-ready" and report.plan is not None and report.plan.coverage == 0, name
