"""A small serving engine: what scan says of captured code and of the host code around it, and what capture adds."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.child

PROJECT = Path(__file__).parent / "project"
MARK = re.compile(r"# guilty: (GS\d+) (captured|step)$", re.M)


def marks() -> set[tuple[str, int, str, str]]:
    return {
        (f"serving/{file.name}", number, *match.groups())
        for file in sorted((PROJECT / "serving").glob("*.py"))
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if (match := MARK.search(line)) is not None
    }


def run(*arguments: str) -> tuple[int, str]:
    done = subprocess.run([sys.executable, *arguments], cwd=PROJECT, capture_output=True, text=True, encoding="utf-8")
    return done.returncode, done.stdout


def findings(report: dict[str, Any]) -> set[tuple[str, int, str, str]]:
    return {
        (f["location"]["path"], f["location"]["line"], f["code"], f["region"])
        for f in report["findings"]
        if f["level"] != "note"
    }


def test_scan_names_every_line_with_its_region_and_no_other() -> None:
    code, text = run("-m", "graphsafe", "scan", ".", "--no-cache", "--format", "json")
    report = json.loads(text)
    assert code == 1 and findings(report) == marks()
    levels = {(f["region"], f["level"]) for f in report["findings"] if f["code"] < "GS4"}
    assert levels == {("captured", "error"), ("step", "warning")}


def test_in_captured_code_alone_three_lines_are_left() -> None:
    _, text = run("-m", "graphsafe", "scan", ".", "--no-cache", "--region", "captured", "--format", "json")
    assert findings(json.loads(text)) == {mark for mark in marks() if mark[3] == "captured"}


COMMAND = re.compile(r"^\$ graphsafe (scan .*)\n((?:(?!```).*\n)*)", re.M)


def test_the_page_shows_what_scan_prints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = COMMAND.findall((PROJECT.parents[2] / "docs" / "serving.md").read_text(encoding="utf-8"))
    assert len(shown) == 2
    for command, page in shown:
        assert run("-m", "graphsafe", *command.split(), "--no-cache")[1] == page


def test_capture_confirms_what_scan_predicts_of_the_model(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    report = tmp_path / "report.json"
    code, _ = run("-m", "graphsafe", "capture", "decode", "--device", "sim", "-o", str(report))
    told = json.loads(report.read_text(encoding="utf-8"))
    assert (code, told["verdict"]) == (1, "not-ready")
    assert findings(told) == {mark for mark in marks() if mark[3] == "captured"}
    assert {f["status"] for f in told["findings"] if f["level"] != "note"} == {"confirmed"}


@pytest.mark.slow
def test_the_engine_serves() -> None:
    pytest.importorskip("torch")
    served = """
import torch
from serving.engine import Engine
from serving.request import Request

together = [Request([3, 4, 5]), Request([7, 2], max_tokens=5), Request([9])]
torch.manual_seed(0)
Engine(torch.device("cpu")).generate(together)
print([len(request.tokens) for request in together])
"""
    assert run("-c", served)[1].strip() == "[16, 5, 16]"
