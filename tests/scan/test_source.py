"""Sources as they come: encodings, columns, nesting. What cannot be read costs one finding, not the scan."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphsafe.config import Config
from graphsafe.report.model import Report
from graphsafe.scan.api import scan_paths

HAZARD = """\
import torch
from torch import nn


class Step(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * x.sum().item()
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good.py").write_text(HAZARD, encoding="utf-8")
    return tmp_path


def scanned(folder: Path) -> Report:
    return scan_paths([folder], Config(root=folder))


def lines(report: Report) -> list[tuple[str, str, int]]:
    return [(f.code, f.location.path, f.location.line) for f in report.findings]


@pytest.mark.parametrize(
    ("data", "line", "column"),
    [
        (b"import torch\nname = '\xe9'\n", 2, 9),
        (b"\xef\xbb\xbf\r\n\r\nname = '\xc3\xa9\xe9'\r\n", 3, 10),
        (b"# -*- coding: klingon -*-\nimport torch\n", 1, 1),
        (b"import torch\n\nx =\x00\n", 3, 4),
        (b"\xff\xfei\x00m\x00p\x00o\x00r\x00t\x00", 1, 1),
    ],
    ids=["latin-1 undeclared", "a byte order mark", "unknown encoding", "null byte", "utf-16"],
)
def test_what_is_not_text_is_one_finding(folder: Path, data: bytes, line: int, column: int) -> None:
    (folder / "bad.py").write_bytes(data)
    report = scanned(folder)
    assert lines(report) == [("GS900", "bad.py", line), ("GS101", "good.py", 7)]
    assert report.findings[0].location.column == column


def test_a_declared_encoding_and_a_byte_order_mark_are_read(folder: Path) -> None:
    (folder / "latin.py").write_bytes(b"# -*- coding: latin-1 -*-\n# \xe9\n" + HAZARD.encode())
    (folder / "marked.py").write_bytes(b"\xef\xbb\xbf" + HAZARD.encode())
    assert lines(scanned(folder)) == [("GS101", "good.py", 7), ("GS101", "latin.py", 9), ("GS101", "marked.py", 7)]


def test_columns_count_code_points(folder: Path) -> None:
    (folder / "good.py").write_text(HAZARD.replace("x * x", "x * {'é🦊': x}['é🦊']"), encoding="utf-8")
    [finding] = scanned(folder).findings
    text = (folder / "good.py").read_text(encoding="utf-8").splitlines()[finding.location.line - 1]
    assert text[finding.location.column - 1 : finding.location.end_column - 1] == "{'é🦊': x}['é🦊'].sum().item()"


def test_code_nested_five_hundred_deep_costs_only_itself(folder: Path) -> None:
    (folder / "deep.py").write_text("import torch\nx = " + "(" * 500 + "1" + ")" * 500 + "\n", encoding="utf-8")
    chain = "x" + ".view(-1)" * 3000
    (folder / "long.py").write_text(HAZARD.replace("x * x", f"{chain} * x"), encoding="utf-8")
    assert ("GS101", "good.py", 7) in lines(scanned(folder))
