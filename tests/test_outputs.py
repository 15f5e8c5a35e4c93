"""Several -o options, and the text in GitHub's job summary."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as xml

import pytest

from graphsafe import cli

HOT = """\
import torch
from torch import nn


class Step(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * x.sum().item()
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    (tmp_path / "hot.py").write_text(HOT, encoding="utf-8")
    return tmp_path


def test_one_run_writes_several(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outputs = ["github", "sarif=a", "b.json", "junit=c.txt", "./concise"]
    assert cli.main(["scan", "hot.py", *(word for output in outputs for word in ("-o", output))]) == 1
    printed = capsys.readouterr().out
    assert printed.startswith("::error file=hot.py") and printed.endswith("graphsafe scan: 1 error in 1 file\n")
    assert json.loads((project / "a").read_text())["version"] == "2.1.0"
    assert json.loads((project / "b.json").read_text())["schema"] == "graphsafe/report/1"
    assert xml.parse(project / "c.txt").getroot().tag == "testsuites"
    assert (project / "concise").read_text().startswith("GS101 error")


def test_files_alone_print_nothing(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["scan", "hot.py", "-o", "a.json", "-o", "sarif=b.json"])
    assert capsys.readouterr().out == ""


def test_format_holds_for_what_names_no_form(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["scan", "hot.py", "--format", "github", "-o", "github", "-o", "sarif=x.sarif", "-o", "y.txt"])
    assert capsys.readouterr().out == (project / "y.txt").read_text(encoding="utf-8")
    assert json.loads((project / "x.sarif").read_text())["version"] == "2.1.0"


def test_a_report_is_turned_into_several(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["scan", "hot.py", "-o", "a.json"])
    assert cli.main(["report", "a.json", "-o", "concise", "-o", "b.html"]) == 0
    assert capsys.readouterr().out.count("GS101") == 1
    assert (project / "b.html").read_text().startswith("<!")


def test_what_cannot_be_written_is_said_before_the_work(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["scan", "hot.py", "-o", "sarif=there/is/none.sarif", "-o", "a.json"]) == 2
    assert "-o there/is/none.sarif: cannot be written" in capsys.readouterr().err
    assert not (project / "a.json").exists()


def test_the_job_summary_of_github(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    summary = project / "summary.md"
    summary.write_text("before\n", encoding="utf-8")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    cli.main(["scan", "hot.py", "--format", "concise"])
    cli.main(["scan", "hot.py", "--format", "github", "-o", "a.txt"])
    assert summary.read_text() == "before\n"
    cli.main(["scan", "hot.py", "--format", "github"])
    text = summary.read_text(encoding="utf-8")
    assert text.startswith("before\n### graphsafe scan\n\n1 error in 1 file\n")
    assert "| error | GS101 | hot.py:7 | " in text


def test_a_summary_that_cannot_be_written_fails_nothing(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(project))
    assert cli.main(["scan", "hot.py", "--format", "github"]) == 1
    assert "GITHUB_STEP_SUMMARY" in capsys.readouterr().err
