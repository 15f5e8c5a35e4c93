"""Whatever a rule pack, a configuration or a file's name says, it controls no terminal and commands no CI system."""

from __future__ import annotations

import ast
import re
import unicodedata
from pathlib import Path

import pytest
from own_source import parsed, texts

from graphsafe import cli

CALLS = ("print", "click.echo", "click.secho", "sys.stdout.write", "secho")
PRINTERS = {
    # function of console.py that prints by itself: why it may
    "say": "it is what makes lines harmless",
    "put_text": "the forms are harmless by themselves (test_hostile_reports.py)",
    "put_ledger_on_stderr": "the forms are harmless by themselves (test_hostile_reports.py)",
    "put_summary": "it colours harmless text",
    "put_diff": "a diff for `git apply` has to be what the files are",
    "show": "it moves the cursor itself",
    "clear": "it moves the cursor itself",
}
EVIL = "\033[2J\033]8;;http://evil\033\\ [red]markup[/red] \u202e ##[add-path]/tmp"


def test_one_function_prints() -> None:
    """A call that prints, anywhere else than in a process that runs a target, is named here."""
    found = []
    for name, text in texts().items():
        if not any(f"{call}(" in text for call in CALLS):
            continue
        for function in ast.walk(parsed(name)):
            if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
                found += [
                    (name, function.name)
                    for call in ast.walk(function)
                    if isinstance(call, ast.Call) and ast.unparse(call.func) in CALLS
                ]
    assert set(found) == {("cli.py", "schema"), ("entry.py", "run"), *(("console.py", name) for name in PRINTERS)}


@pytest.mark.parametrize("colour", ["", "1"])
def test_what_files_say_is_printed_without_control(
    colour: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FORCE_COLOR", colour)
    name = f"evil {EVIL.replace('/', '')}.py"
    Path(name).write_text(
        "import torch\n\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        x.item()\n"
    )
    Path("pyproject.toml").write_text('[tool.graphsafe]\nhot-paths = ["##[add-path]/tmp"]\n')
    for command in (
        ["scan", "."],
        ["scan", ".", "--statistics"],
        ["scan", ".", "--explain-path", "forward"],
        ["scan", EVIL],
        ["config"],
        ["explain", EVIL],
        ["explain", "GS101"],
        ["report", name],
        ["scan", f"--{EVIL}"],
        ["rules", "test", name],
    ):
        assert cli.main(command) in (0, 1, 2), command
        out, err = capsys.readouterr()
        for line in (out + err).split("\n"):
            plain = re.sub(r"\033\[[\d;]*m", "", line)
            assert not {c for c in plain if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")}, (command, line)
            assert "##[" not in line, (command, line)


@pytest.mark.parametrize("form", ["html", "junit"])
def test_a_report_in_a_jobs_log_holds_no_command(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("graphsafe.toml").write_text("", encoding="utf-8")
    step = "import torch\nclass S(torch.nn.Module):\n    def forward(self, x: torch.Tensor):\n        return x.item()\n"
    Path("a\n::error file=x::b.py").write_text(step, encoding="utf-8")
    Path("c##vso[task.setvariable variable=X]d.py").write_text(step, encoding="utf-8")
    cli.main(["scan", ".", "--format", form, "--no-cache"])
    out = capsys.readouterr().out
    assert not re.search(r"^\s*::", out, re.MULTILINE) and "##vso[" not in out and "task.setvariable" in out
