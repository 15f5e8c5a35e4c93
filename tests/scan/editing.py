"""A project that tests scan, edit and scan again with a cache."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from graphsafe.config import Config
from graphsafe.report.forms import render
from graphsafe.report.model import Confidence, Report
from graphsafe.scan import api
from graphsafe.scan.incremental.cache import FOLDER

Again = Callable[[], tuple[Report, bool]]


def write_project(root: Path, files: Mapping[str, str]) -> Path:
    (root / "pyproject.toml").write_text("")
    for name, text_of_file in files.items():
        (root / name).write_text(text_of_file)
    return root


def scans_again(root: Path, monkeypatch: pytest.MonkeyPatch, confidence: Confidence = "likely") -> Again:
    """Scan with the cache: the report, which is that of a scan without one, and whether it took a whole scan."""
    scans: list[bool] = []
    original = api._report

    def noted(*arguments: object) -> object:
        scans.append(True)
        return original(*arguments)  # type: ignore[arg-type]

    def scan() -> tuple[Report, bool]:
        monkeypatch.setattr(api, "_report", noted)
        scans.clear()
        report = api.scan_paths([root], Config(root=root), confidence=confidence, cache=root / FOLDER)
        monkeypatch.setattr(api, "_report", original)
        assert text(report) == text(api.scan_paths([root], Config(root=root), confidence=confidence))
        return report, bool(scans)

    return scan


def text(report: Report) -> str:
    return render(replace(report, created=""), "json")


def edit(root: Path, name: str, old: str, new: str) -> None:
    before = (root / name).read_text()
    assert before.count(old) == 1
    (root / name).write_text(before.replace(old, new))
