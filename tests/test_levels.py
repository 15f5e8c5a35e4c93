"""`levels` in the configuration: the level of a rule's findings, in scan, in capture and in every form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from graphsafe.cli import main
from graphsafe.report.forms import FORMS
from graphsafe.report.model import Level
from graphsafe.rulebook.book import load_rulebook

STEPS = """\
import torch
from torch import nn


class Adds(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.ones_like(x)


class Reads(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not torch.cuda.is_current_stream_capturing():
            print((torch.ones_like(x) * x).sum().item())
        return x


def adds(device):
    return Adds(), (torch.randn(4, device=device),)
"""
READS = """\
import torch


def reads(device):
    return (lambda x: torch.ones_like(x) * x.sum().item()), (torch.randn(4, device=device),)
"""
Levels = set[tuple[str, int, str]]


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("steps.py").write_text(STEPS)


def configure(**levels: str) -> None:
    lines = [f'{code} = "{level}"\n' for code, level in levels.items()]
    Path("graphsafe.toml").write_text("[levels]\n" + "".join(lines))


def levels_in(file: str) -> Levels:
    report: Any = json.loads(Path(file).read_text())
    return {(found["code"], found["location"]["line"], found["level"]) for found in report["findings"]}


def test_a_scan_has_the_configured_levels(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scan", "-o", "report.json"]) == 0
    assert levels_in("report.json") == {("GS401", 7, "note"), ("GS401", 13, "note"), ("GS101", 13, "note")}
    configure(GS4="warning", GS401="error", GS101="error")
    # Capturing never reaches line 13, so its findings stay notes.
    assert main(["scan", "-o", "report.json"]) == 1
    assert levels_in("report.json") == {("GS401", 7, "error"), ("GS401", 13, "note"), ("GS101", 13, "note")}
    configure(GS401="warning")
    assert main(["scan"]) == 0
    out = capsys.readouterr().out
    assert "GS401 warning: `torch.ones_like(x)` allocates" in out and "--> steps.py:7:20" in out
    assert main(["scan", "--fail-level", "warning"]) == 1


@pytest.mark.parametrize("form", [form for form in FORMS if form != "trace"])
def test_every_form_has_the_configured_level(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["scan", "--format", form, "--ignore", "GS101"])
    before = capsys.readouterr().out
    configure(GS401="error")
    assert main(["scan", "--format", form, "--ignore", "GS101"]) == 1
    after = capsys.readouterr().out
    word = {"github": "::error", "gitlab": '"major"', "junit": "<failure", "concise": "GS401 `"}.get(form, "error")
    assert after.count(word) > before.count(word), after


def test_a_baseline_holds_what_was_raised(capsys: pytest.CaptureFixture[str]) -> None:
    configure(GS401="error")
    assert main(["scan"]) == 1
    assert main(["scan", "--write-baseline"]) == 0
    assert main(["scan"]) == 0
    configure(GS401="warning")
    assert main(["scan", "--fail-level", "warning"]) == 0
    assert "in the baseline" in capsys.readouterr().out


def test_levels_are_shown_where_they_are_in_force(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config"]) == 0
    assert "levels: the rulebook's (default)" in capsys.readouterr().out
    configure(GS401="error")
    for command, text in {
        "config": "levels: GS401 error (graphsafe.toml)",
        "rules": "GS401  error    fresh-buffer",
        "explain GS401": "Level: note; configured here: error.",
    }.items():
        assert main(command.split()) == 0
        assert text in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('levels = { GS999 = "error" }', 'levels: unknown rule "GS999"'),
        ('levels = { GS401 = "fatal" }', "levels.GS401: expected one of note, warning, error, got 'fatal'"),
        ('levels = "error"', "levels: expected a table, got 'error'"),
    ],
)
def test_a_wrong_level_is_one_line(text: str, problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("graphsafe.toml").write_text(f'{text}\n[targets.adds]\nfactory = "steps.py:adds"\n')
    for command in ("scan", "config", "capture steps.py:adds --device sim", "capture --all"):
        assert main(command.split()) == 2
        err = capsys.readouterr().err
        assert problem in err and err.count("\n") == 1
        if command.startswith("capture"):
            written = json.loads(Path("graphsafe-report.json").read_text())
            (report,) = written.get("reports", [written])
            assert report["verdict"] == "inconclusive"
            assert [limit["kind"] for limit in report["limits"]] == ["bad-request"]
            Path("graphsafe-report.json").unlink()


@pytest.mark.slow
@pytest.mark.child
def test_a_capture_has_the_configured_levels_and_the_same_verdict() -> None:
    pytest.importorskip("torch")
    Path("reads.py").write_text(READS)
    targets = {"steps.py:adds": 0, "reads.py:reads": 1}

    def captured() -> list[Levels]:
        found = []
        for target, code in targets.items():
            assert main(["capture", target, "--device", "sim", "-o", "report.json"]) == code
            found.append(levels_in("report.json"))
        return found

    assert captured() == [{("GS401", 7, "note")}, {("GS401", 5, "note"), ("GS101", 5, "error")}]
    configure(GS401="error", GS101="note")
    # A replay has proved that the first buffer is harmless, so its line is not an error.
    assert captured() == [{("GS401", 7, "warning")}, {("GS401", 5, "error"), ("GS101", 5, "note")}]


@pytest.mark.parametrize(
    ("code", "configured", "found", "level"),
    [
        ("GS401", "error", None, "error"),
        ("GS101", "warning", None, "warning"),
        ("GS703", "error", "warning", "warning"),
        ("GS703", "note", "warning", "note"),
        ("GS705", "error", "warning", "error"),
    ],
)
def test_circumstances_lower_a_level_and_the_configuration_never_raises_it_above_them(
    code: str, configured: Level, found: Level | None, level: Level
) -> None:
    assert load_rulebook((), {code: configured}).rules[code].level_of(found) == level


def test_the_longer_code_counts() -> None:
    rules = load_rulebook((), {"GS401": "error", "GS": "note", "GS4": "warning"}).rules
    assert [rules[code].level_of() for code in ("GS101", "GS401", "GS402")] == ["note", "error", "warning"]
