"""The command line: its output on stdout and stderr, its exit codes, and one clear line for every bad request."""

from __future__ import annotations

import io
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest

import graphsafe
from graphsafe import cli
from graphsafe.report.forms import FORMS, render
from graphsafe.report.json_form import read_saved
from graphsafe.report.model import Environment, Limit, Report, Tool
from graphsafe.rulebook.book import load_rulebook
from graphsafe.scan.models import tensors

HOT = """\
import torch
from torch import nn


class Step(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * x.sum().item()
"""
COLD = "def helper():\n    return 1\n"


Piped = Callable[..., tuple[int, str]]

SAME = {**os.environ, "PYTHONPATH": str(Path(graphsafe.__file__).resolve().parents[1])}
"With this environment, a process in another folder has the same graphsafe as the tests."


def run(*arguments: str | Path, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command as a separate process, as a user does."""
    return subprocess.run(
        [sys.executable, "-m", "graphsafe", *map(str, arguments)],
        cwd=cwd,
        env={**SAME, **environment},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
    )


def here(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str, str]:
    """Run the command in this process, which is faster. Return the exit code, stdout and stderr."""
    code = cli.main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return code, out, err


def one_line(err: str) -> str:
    assert err.count("\n") == 1 and err.startswith("graphsafe: "), err
    return err


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text("[tool.graphsafe]\n", encoding="utf-8")
    (tmp_path / "hot.py").write_text(HOT, encoding="utf-8")
    return tmp_path


def saved(folder: Path) -> Path:
    report = Report(
        tool=Tool("graphsafe", "0.1.0"),
        command="scan",
        created="2026-11-21T03:00:00Z",
        environment=Environment("3.12.3", None, None, None, (), "torch-2.11", {}),
        target=None,
        verdict=None,
        evidence=None,
        findings=(),
        limits=(Limit("no-root", "src", "nothing there is called once a step"),),
        devices=None,
    )
    path = folder / "saved.json"
    path.write_text(render(report, "json"), encoding="utf-8")
    return path


def test_help_and_version_import_nothing_heavy() -> None:
    script = (
        "import sys; from graphsafe.cli import main; code = main(['--help']);"
        "heavy = {'torch', 'libcst', 'rich', 'yaml', 'jsonschema'} & set(sys.modules);"
        "heavy |= {'graphsafe.report.model', 'graphsafe.rulebook.book', 'graphsafe.config'} & set(sys.modules);"
        "sys.exit(f'{heavy}' if heavy else code)"
    )
    helped = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (helped.returncode, helped.stderr) == (0, "")
    assert "graphsafe scan src/" in helped.stdout
    assert run("--version").stdout.startswith("graphsafe ")


@pytest.mark.child
@pytest.mark.parametrize("form", ["terminal", "json"])
def test_a_scan_does_not_import_the_probes_of_captures(project: Path, form: str) -> None:
    script = (
        f"import sys; from graphsafe.cli import main; code = main(['scan', '--no-cache', '--format', '{form}']);"
        "sys.exit(3 if {'graphsafe.report.probes', 'graphsafe.report.ledger.model'} & set(sys.modules) else code)"
    )
    assert subprocess.run([sys.executable, "-c", script], cwd=project, capture_output=True).returncode == 1  # findings


@pytest.mark.parametrize("command", ["scan", "capture", "run", "explain", "rules", "report", "config", "schema"])
def test_every_command_has_help(capsys: pytest.CaptureFixture[str], command: str) -> None:
    code, out, err = here(capsys, command, "--help")
    assert code == 0 and out.startswith(f"Usage: graphsafe {command}") and not err


@pytest.mark.parametrize(
    "command", ["", "scan", "capture", "run", "explain", "rules", "rules test", "report", "config", "schema"]
)
def test_help_fits_80_columns_and_cuts_off_no_sentence(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    out = here(capsys, *command.split(), "--help")[1]
    assert max(map(len, out.splitlines())) <= 80
    assert not [line for line in out.splitlines() if line.startswith("  ") and line.endswith("...")]


def test_the_first_help_has_an_example_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    examples = [line.split()[1] for line in here(capsys, "--help")[1].splitlines() if line.startswith("  graphsafe ")]
    assert examples == ["scan", "capture", "run", "explain"]


def test_only_commands_with_a_timeline_offer_a_trace_and_run_says_where_its_ledger_goes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    offers = {
        command: "|trace]" in here(capsys, command, "--help")[1] for command in ("scan", "run", "capture", "report")
    }
    assert offers == {"scan": False, "run": False, "capture": True, "report": True}
    said = " ".join(here(capsys, "run", "--help")[1].split())
    assert "Without it, the ledger is shown on stderr" in said and "default: terminal" not in said


# scan


def test_an_ignored_folder_is_read_if_it_is_named(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    library = project / ".venv" / "lib" / "site-packages" / "library"
    library.mkdir(parents=True)
    (project / "hot.py").rename(library / "hot.py")
    (project / ".gitignore").write_text(".venv/\n", encoding="utf-8")
    (project / ".git").mkdir()
    code, out, _ = here(capsys, "scan", str(library), "--format", "concise")
    assert code == 1 and "library/hot.py:7:" in out
    code, _, err = here(capsys, "scan", ".")
    assert code == 0 and "no Python files found" in one_line(err)


def test_a_folder_without_files_is_told_from_one_without_hot_code(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "hot.py").unlink()
    (project / "other").mkdir()
    code, _, err = here(capsys, "scan", "other")
    assert code == 0 and "no Python files found" in one_line(err)
    (project / "cold.py").write_text(COLD, encoding="utf-8")
    for quiet in ((), ("-q",)):
        code, _, err = here(capsys, "scan", "cold.py", *quiet)
        assert code == 0 and "no hot code found" in one_line(err)


def test_that_there_is_nothing_to_scan_is_said_once_and_is_in_every_file(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "hot.py").unlink()
    for is_terminal in (False, True):
        with monkeypatch.context() as patch:
            for name in ("stdout", "stderr"):
                patch.setattr(f"sys.{name}.isatty", lambda answer=is_terminal: answer)
            patch.setenv("NO_COLOR", "1")
            code, out, err = here(capsys, "scan", ".")
        assert (code, out) == (0, "no findings; 0 roots read\n") and "no Python files found" in one_line(err)
    out = here(capsys, "scan", ".", "-o", "-", "-o", "a.txt", "-o", "a.json")[1]
    assert out == "no findings; 0 roots read\n"
    assert all("no Python files found" in Path(name).read_text(encoding="utf-8") for name in ("a.txt", "a.json"))


def test_a_terminal_shows_a_setting_without_effect_once(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "pyproject.toml").write_text('[tool.graphsafe]\ncold-paths = ["gone/"]\n', encoding="utf-8")
    for terminals, options, times in (
        (("stdout", "stderr"), (), (1, 0)),
        (("stdout", "stderr"), ("--format", "concise"), (0, 1)),
        (("stdout", "stderr"), ("-o", "out.json"), (0, 1)),
        (("stderr",), (), (1, 1)),  # the report is in a pipe or a file
    ):
        with monkeypatch.context() as patch:
            for name in terminals:
                patch.setattr(f"sys.{name}.isatty", lambda: True)
            _, out, err = here(capsys, "scan", *options)
        assert (out.count("cold-paths gone/"), err.count("cold-paths gone/")) == times, (terminals, options)


def test_scan_exits_with_1_on_findings_and_0_without(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = here(capsys, "scan", "hot.py", "--format", "concise")
    assert code == 1
    assert "hot.py:7:" in out and "GS101" in out
    code, out, _ = here(capsys, "scan", "hot.py", "--ignore", "GS101")
    assert code == 0
    code, out, _ = here(capsys, "scan", "hot.py", "--select", "GS2,GS301", "--select", "GS4")
    assert code == 0


def test_scan_writes_a_valid_report_to_a_file_instead_of_stdout(
    project: Path, capsys: pytest.CaptureFixture[str], valid_report: Any
) -> None:
    code, out, err = here(capsys, "scan", "hot.py", "--format", "json", "-o", "out.json")
    assert (code, out, err) == (1, "", "")
    report = valid_report((project / "out.json").read_text(encoding="utf-8"))
    assert [finding["code"] for finding in report["findings"]] == ["GS101"]
    assert [path.name for path in project.iterdir() if "out.json" in path.name] == ["out.json"]


def test_a_file_has_the_form_of_its_suffix_unless_another_is_asked_for(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here(capsys, "scan", "hot.py", "-o", "out.sarif")
    assert "$schema" in json.loads((project / "out.sarif").read_text(encoding="utf-8"))
    here(capsys, "scan", "hot.py", "--format", "concise", "-o", "out.json")
    assert (project / "out.json").read_text(encoding="utf-8").startswith("hot.py:")
    here(capsys, "scan", "hot.py", "-o", "out.txt")
    assert "GS101 error:" in (project / "out.txt").read_text(encoding="utf-8")


def test_a_dash_is_stdout(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(project.iterdir())
    _, out, _ = here(capsys, "scan", "hot.py", "-o", "-")
    assert out.startswith("GS101 error:")
    _, out, _ = here(capsys, "scan", "hot.py", "-o", "json=-")
    assert json.loads(out)["schema"].startswith("graphsafe/report")
    assert sorted(path for path in project.iterdir() if path.name != ".graphsafe_cache") == before


def test_scan_fails_from_the_fail_level_on(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    note = HOT.replace("x * x.sum().item()", "torch.empty_like(x).copy_(x)")
    (project / "hot.py").write_text(note, encoding="utf-8")
    assert here(capsys, "scan", "hot.py")[0] == 0
    assert here(capsys, "scan", "hot.py", "--fail-level", "note")[0] == 1
    (project / "graphsafe.toml").write_text('fail-level = "note"\n', encoding="utf-8")
    assert here(capsys, "scan", "hot.py")[0] == 1
    assert here(capsys, "scan", "hot.py", "--fail-level", "error")[0] == 0


def test_what_is_only_possible_is_said_on_request(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # Below its default level, logging never looks at its arguments.
    logged = "import logging\n" + HOT.replace("return x * x.sum().item()", 'logging.info("%s", x)')
    (project / "hot.py").write_text(logged, encoding="utf-8")
    hidden = "no findings; 1 root read, 1 possible finding hidden (--confidence possible)\n"
    assert here(capsys, "scan", "hot.py") == (0, hidden, "")
    code, out, _ = here(capsys, "scan", "hot.py", "--confidence", "possible", "--format", "json")
    assert code == 1 and {finding["confidence"] for finding in json.loads(out)["findings"]} == {"possible"}


def test_the_command_line_has_the_last_word_on_the_selection(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "hot.py").write_text(HOT.replace("return", "y = x[x > 0]\n        return"), encoding="utf-8")

    def codes(*options: str) -> set[str]:
        out = here(capsys, "scan", "hot.py", "--format", "json", *options)[1]
        return {finding["code"] for finding in json.loads(out)["findings"]}

    assert codes() == {"GS101", "GS202"}
    (project / "graphsafe.toml").write_text('select = ["GS1"]\nignore = ["GS104"]\n', encoding="utf-8")
    assert codes() == {"GS101"}
    assert codes("--select", "GS2") == {"GS202"}
    assert codes("--select", "GS1,GS2", "--ignore", "GS202") == {"GS101"}
    assert codes("--select", "GS1,GS2", "--ignore", "GS202") == {"GS101"}
    (project / "graphsafe.toml").write_text('ignore = ["GS1"]\n', encoding="utf-8")
    assert codes() == {"GS202"}
    assert codes("--select", "GS101") == {"GS101"}
    assert codes("--extend-select", "GS101") == {"GS101", "GS202"}
    assert codes("--extend-select", "GS101", "--ignore", "GS2") == {"GS101"}


def test_excluded_files_are_neither_reported_nor_read(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "old").mkdir()
    (project / "old" / "hot.py").write_text("def (:\n", encoding="utf-8")
    assert "GS900" in here(capsys, "scan", ".", "--format", "concise")[1]
    (project / "graphsafe.toml").write_text('exclude = ["old/"]\n', encoding="utf-8")
    out = here(capsys, "scan", ".", "--format", "concise")[1]
    assert "GS101" in out and "GS900" not in out


def test_an_excluded_folder_is_read_if_it_is_named(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "old" / "tests").mkdir(parents=True)
    for folder in ("old", "old/tests"):
        (project / folder / "hot.py").write_text(HOT, encoding="utf-8")
    (project / "graphsafe.toml").write_text('exclude = ["old/", "tests/"]\n', encoding="utf-8")
    found = here(capsys, "scan", "old", "--format", "concise")[1]
    assert [line.partition(":")[0] for line in found.splitlines()] == ["old/hot.py"]


def test_patterns_of_the_command_line_exclude_besides_configured_ones(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "graphsafe.toml").write_text('exclude = ["old/"]\n', encoding="utf-8")
    for name in ("old", "new"):
        (project / name).mkdir()
        (project / name / "hot.py").write_text(HOT, encoding="utf-8")
    found = here(capsys, "scan", "--exclude", "/hot.py", "--format", "concise")[1]
    assert [line.partition(":")[0] for line in found.splitlines()] == ["new/hot.py"]
    assert here(capsys, "scan", "--exclude", "/hot.py", "--exclude", "new")[0] == 0


def test_a_scan_without_a_path_is_one_of_this_folder(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert here(capsys, "scan", "--format", "concise") == here(capsys, "scan", ".", "--format", "concise")


def test_a_file_has_the_same_findings_from_every_folder(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "pyproject.toml").write_text(
        '[tool.graphsafe.per-file-ignores]\n"sub/old*" = ["GS1"]\n', encoding="utf-8"
    )
    (project / "sub").mkdir()
    for name in ("old.py", "new.py"):
        (project / "sub" / name).write_text(HOT, encoding="utf-8")

    def found(*paths: str) -> list[tuple[str, str]]:
        findings = json.loads(here(capsys, "scan", *paths, "--format", "json")[1])["findings"]
        return [(Path(f["location"]["path"]).name, f["fingerprint"]) for f in findings]

    whole = [each for each in found(".") if each[0] != "hot.py"]
    assert [name for name, _ in whole] == ["new.py"]
    for folder, paths in (
        (".", ["sub"]),
        ("sub", ["."]),
        ("sub", []),
        ("sub", ["new.py", "old.py"]),
        ("/", [f"{project}/sub"]),
    ):
        monkeypatch.chdir(project / folder)
        assert found(*paths) == whole


@pytest.fixture
def piped(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, str]]:
    """Scan a text from stdin in this process. The result is the exit code and stdout."""

    def scan(text: str, *arguments: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        return here(capsys, "scan", "-", *arguments)[:2]

    return scan


def test_stdin_stands_for_a_file_of_the_project(
    project: Path, valid_report: Any, piped: Piped, capsys: pytest.CaptureFixture[str]
) -> None:
    """An editor scans an unsaved buffer in this way. Hot functions and calls are resolved as in the project."""
    (project / "ops.py").write_text("def scaled(x):\n    return x\n", encoding="utf-8")
    (project / "hot.py").write_text(
        HOT.replace("x * x.sum().item()", "scaled(x)").replace(
            "import torch\n", "import torch\nfrom ops import scaled\n", 1
        ),
        encoding="utf-8",
    )
    saved_files = {path: path.read_bytes() for path in project.glob("*.py")}
    buffer = "def scaled(x):\n    # not saved\n    return x * x.max().item()\n"
    code, out = piped(buffer, "--stdin-filename", "ops.py")
    assert code == 1 and "ops.py:3:16 in scaled" in out
    assert "3 |     return x * x.max().item()" in out
    found = valid_report(piped(buffer, "--stdin-filename", "./ops.py", "--format", "json")[1])["findings"]
    (project / "ops.py").write_text(buffer, encoding="utf-8")
    assert found == json.loads(here(capsys, "scan", "ops.py", "--format", "json")[1])["findings"]
    (project / "ops.py").write_bytes(saved_files[project / "ops.py"])
    assert here(capsys, "scan", "ops.py")[0] == 0
    assert {path: path.read_bytes() for path in project.glob("*.py")} == saved_files


def test_stdin_without_a_name_or_of_a_new_file(project: Path, piped: Piped) -> None:
    command = [sys.executable, "-m", "graphsafe", "scan", "-", "--format", "concise"]
    started = subprocess.run(command, cwd=project, env=SAME, input=HOT, capture_output=True, text=True)
    assert started.stdout.startswith("-:7:20: GS101")
    code, out = piped(HOT, "--format", "concise", "--stdin-filename", "new/x.py", "-j", "2")
    assert out.startswith("new/x.py:7:20: GS101") and code == 1
    assert piped("def (:", "--format", "concise")[1].startswith("-:1:5: GS900")
    assert piped("")[0] == 0


def test_stdin_knows_the_baseline_of_its_file(project: Path, piped: Piped, capsys: pytest.CaptureFixture[str]) -> None:
    assert here(capsys, "scan", "--write-baseline")[0] == 0
    assert piped("# A comment.\n" + HOT, "--stdin-filename", "hot.py")[0] == 0
    assert piped(HOT, "--stdin-filename", "other.py")[0] == 1


def test_statistics_count_findings_by_rule(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "more.py").write_text(HOT.replace("return", "y = x[x > 0]\n        return"), encoding="utf-8")
    code, out, err = here(capsys, "scan", "--statistics")
    assert (code, err) == (1, "")
    assert out == "2  GS101  scalar-read (2 errors)\n1  GS202  mask-index (1 error)\n3  in all, in 2 files (3 errors)\n"
    assert here(capsys, "scan", "--statistics", "--exit-zero") == (0, out, "")


def test_findings_do_not_fail_on_request_and_wrong_requests_still_do(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = here(capsys, "scan", "--exit-zero", "--format", "concise")
    assert code == 0 and "GS101" in out
    assert here(capsys, "scan", "absent.py", "--exit-zero")[0] == 2


def test_settings_say_what_is_in_force_and_from_where(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "pyproject.toml").write_text(
        '[tool.graphsafe]\nfail-level = "error"\nignore = ["GS4"]\nexclude = ["old/"]\n'
        'hot-paths = [{ path = "a.b:C.d", compiled = true }]\n',
        encoding="utf-8",
    )
    code, out, err = here(capsys, "scan", "--show-settings", "--exclude", "new/", "--no-cache")
    assert (code, err) == (0, "")
    assert f"project root: {project}" in out.replace("\n    ", " ")
    ignored = ", ".join(code for code in load_rulebook().rules if code.startswith("GS4"))
    for line in (
        "configuration: pyproject.toml (the nearest file at or above the paths)",
        "baseline: graphsafe-baseline.toml (not found)",
        "cache: none (not kept)",
        f"  all but: {ignored} (pyproject.toml)",
        "fail-level: error (pyproject.toml)",
        "hot-paths: a.b:C.d (compiled) (pyproject.toml)",
        "exclude: old/, new/ (pyproject.toml and command line)",
        "targets: none (default)",
        "settings: none (default)",
    ):
        assert line in out.splitlines()
    out = here(capsys, "scan", "--show-settings", "--select", "GS2", "--fail-level", "note")[1]
    only = ", ".join(code for code in load_rulebook().rules if code.startswith("GS2") or code == "GS900")
    assert f"  only: {only} (command line)" in out and "fail-level: note (command line)" in out
    for paths in ((), (str(project),)):
        assert "fail-level: error (pyproject.toml)" in here(capsys, "config", *paths)[1].splitlines()


def test_the_schema_of_reports_is_printed(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = here(capsys, "schema")
    assert code == 0 and json.loads(out)["$schema"].endswith("draft/2020-12/schema")


@pytest.mark.child
@pytest.mark.parametrize(
    ("environment", "colour"),
    [
        ({}, False),
        ({"FORCE_COLOR": "1"}, True),
        ({"FORCE_COLOR": "1", "TERM": "dumb"}, True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
    ],
)
def test_colour_without_a_terminal_is_a_matter_of_the_environment(
    project: Path, environment: dict[str, str], colour: bool
) -> None:
    for arguments in (["scan"], ["explain", "GS101"]):
        assert ("\x1b[" in run(*arguments, cwd=project, **environment).stdout) == colour


@pytest.mark.child
@pytest.mark.skipif(os.name == "nt", reason="needs a pseudo-terminal")
@pytest.mark.parametrize(
    ("environment", "colour"), [({"TERM": "xterm"}, True), ({"TERM": "dumb"}, False), ({"NO_COLOR": "1"}, False)]
)
def test_a_terminal_has_colour_unless_it_is_dumb_or_told_otherwise(
    project: Path, environment: dict[str, str], colour: bool
) -> None:
    import pty

    main, other = pty.openpty()
    command = [sys.executable, "-m", "graphsafe", "scan"]
    assert subprocess.run(command, cwd=project, env={**SAME, **environment}, stdout=other).returncode == 1
    os.close(other)
    assert (b"\x1b[" in os.read(main, 65536)) == colour
    os.close(main)


@pytest.mark.child
def test_a_shell_can_complete_commands_options_and_forms() -> None:
    def completed(words: str) -> set[str]:
        given = {"_GRAPHSAFE_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
        return {line.partition(",")[2] for line in run(**given).stdout.splitlines()}

    assert completed("graphsafe sc") == {"scan", "schema"}
    assert completed("graphsafe scan --stat") == {"--statistics"}
    assert completed("graphsafe scan --format j") == {"json", "junit"}
    assert "complete -o nosort" in run(_GRAPHSAFE_COMPLETE="bash_source").stdout


def test_the_cache_goes_where_it_is_told_or_nowhere(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = here(capsys, "scan", "hot.py", "--no-cache", "-j", "2")
    assert not (project / ".graphsafe_cache").exists()
    assert here(capsys, "scan", "hot.py", "--cache-dir", "elsewhere") == first
    assert not (project / ".graphsafe_cache").exists() and list((project / "elsewhere").glob("*.cache"))
    assert here(capsys, "scan", "hot.py") == first
    assert (project / ".graphsafe_cache").exists()


@pytest.mark.skipif(not tensors.__file__.endswith(".py"), reason="machine code does not look its functions up")
def test_a_fault_in_one_function_is_a_line_on_stderr_and_the_rest_goes_on(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "odd.py").write_text(HOT.replace("x.sum().item()", "x.sigmoid()"), encoding="utf-8")
    method = tensors.method

    def broken(frame: Any, node: Any, tensor: Any, name: str, arguments: Any) -> Any:
        if name == "sigmoid":
            raise KeyError("no such thing")
        return method(frame, node, tensor, name, arguments)

    monkeypatch.setattr(tensors, "method", broken)
    code, out, err = here(capsys, "scan", ".", "--format", "concise")
    assert code == 1 and "GS101" in out
    assert "odd.py::Step.forward: KeyError" in one_line(err)


def test_scan_says_when_nothing_is_hot(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "hot.py").write_text(COLD, encoding="utf-8")
    code, _, err = here(capsys, "scan", "hot.py")
    assert code == 0 and one_line(err)


def test_scan_never_imports_torch_nor_what_it_scans(project: Path) -> None:
    (project / "hot.py").write_text("raise SystemExit('imported')\n" + HOT, encoding="utf-8")
    script = (
        "import sys; from graphsafe.cli import main; code = main(['scan', 'hot.py']);"
        "sys.exit(9 if 'torch' in sys.modules or 'hot' in sys.modules else code)"
    )
    scanned = subprocess.run([sys.executable, "-c", script], cwd=project, env=SAME, capture_output=True, text=True)
    assert scanned.returncode == 1 and "GS101" in scanned.stdout and "imported" not in scanned.stderr


def test_a_missing_path_is_said_and_the_rest_is_scanned(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = here(capsys, "scan", "absent.py", "hot.py", "--format", "concise")
    assert code == 2
    assert "absent.py: no such file or folder" in one_line(err)
    assert "GS101" in out
    assert here(capsys, "scan", "absent.py")[0] == 2


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["scan", "hot.py", "--extend-select", "GS999"], '--extend-select: unknown rule "GS999"'),
        (["scan", "--stdin-filename", "hot.py"], "scan --stdin-filename: give `-` as the path"),
        (["scan", "-", "hot.py"], "scan -: takes no further paths"),
        (["scan", "--statistics", "--show-settings"], "give either --statistics or --show-settings"),
        (["scan", "hot.py", "--select", "GS999"], 'unknown rule "GS999"'),
        (["scan", "hot.py", "--ignore", "scalar"], 'unknown rule "scalar"'),
        (["scan", "hot.py", "--format", "xml"], f"'xml' is not one of {', '.join(FORMS)}"),
        (["scan", "hot.py", "--fail-level", "fatal"], "'fatal' is not one of"),
        (["scan", "hot.py", "-o", "absent/out.json"], "-o absent/out.json: cannot be written"),
        (["scan", "hot.py", "-o", "."], "-o .: cannot be written"),
        (["scan", "hot.py", "-o", "hot.py"], "-o hot.py: contains code that graphsafe did not write; name another"),
        (["capture", "hot.py:f", "-o", "hot.py"], "hot.py: contains code that graphsafe did not write"),
        (["capture", "hot.py:f", "-o", "hot.py", "--warmup", "x"], "'x' is not a valid integer"),
        (["capture", "hot.py:f", "--emit", "hot.py"], "--emit hot.py: contains code that graphsafe did not write"),
        (["scan", "hot.py", "--format", "trace"], "--format trace: only a capture has a timeline"),
        (["scan", "hot.py", "-o", "trace"], "-o trace: only a capture has a timeline"),
        (["run", "--format", "trace", "--", "absent"], "--format trace: only a capture has a timeline"),
        (["run", "-o", "a.trace.json", "--", "absent"], "-o a.trace.json: only a capture has a timeline"),
        (["config", "absent"], "absent: no such file or folder"),
        (["capture"], "give either a TARGET or --all"),
        (["capture", "a.py:f", "--all"], "give either a TARGET or --all"),
        (["capture", "--all"], "no target under [tool.graphsafe.targets]"),
        (["capture", "a.py:f", "--device", "gpu"], "--device gpu: expected cuda, cuda:N, all, sim or sim:N"),
        (["capture", "a.py:f", "--emit", "absent/plan.py"], "--emit absent/plan.py: cannot be written"),
        (["capture", "a.py:f", "--bucket", "batch"], "--bucket batch: expected axis=value,value"),
        (["capture", "a.py:f", "--input", "ids"], "--input ids: expected name:dtype[shape]=low..high"),
        (["capture", "a.py:f", "--input", "ids:i65[1]"], 'unknown dtype "i65" (did you mean "i64"?)'),
        (["capture", "a.py:f", "--input", "ids:i64[1]=3..1"], "the range is empty"),
        (["capture", "a.py:f", "--timeout", "0"], "'--timeout'"),
        (["explain", "GS999"], 'nothing is known about "GS999"'),
        (["rules", "test", "absent.yaml"], "absent.yaml: No such file"),
        (["report", "absent.json"], "absent.json: cannot be read"),
        (["report", "hot.py"], "hot.py: not JSON"),
        (["scam"], "graphsafe: no such command 'scam'"),
    ],
)
def test_a_wrong_request_exits_with_2_and_says_why(
    project: Path, capsys: pytest.CaptureFixture[str], arguments: Sequence[str], problem: str
) -> None:
    source = Path("hot.py").read_bytes()
    code, out, err = here(capsys, *arguments)
    assert (code, out) == (2, "")
    assert problem in err.splitlines()[-1]
    assert Path("hot.py").read_bytes() == source


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("graphsafe.toml", "selekt = []", 'selekt: unknown key (did you mean "select"?)'),
        ("graphsafe.toml", 'rules = ["pack.yaml"]', "pack.yaml: No such file"),
        ("graphsafe.toml", 'select = ["GS999"]', 'graphsafe.toml: select: unknown rule "GS999"'),
        ("graphsafe.toml", 'ignore = ["GS9999"]', 'graphsafe.toml: ignore: unknown rule "GS9999"'),
        ("graphsafe.toml", 'levels = { GS999 = "note" }', 'graphsafe.toml: levels: unknown rule "GS999"'),
        (
            "pyproject.toml",
            '[tool.graphsafe]\nignore = ["GS9999"]',
            'pyproject.toml: tool.graphsafe.ignore: unknown rule "GS9999"',
        ),
        (
            "graphsafe.toml",
            '[per-file-ignores]\n"a.py" = ["GS999"]',
            'graphsafe.toml: per-file-ignores: unknown rule "GS999"',
        ),
    ],
)
@pytest.mark.parametrize("command", [("scan", "hot.py"), ("config",)])
def test_a_wrong_configuration_exits_with_2_and_one_line(
    project: Path,
    capsys: pytest.CaptureFixture[str],
    command: tuple[str, ...],
    name: str,
    text: str,
    problem: str,
) -> None:
    (project / name).write_text(text, encoding="utf-8")
    code, out, err = here(capsys, *command)
    assert (code, out) == (2, "")
    assert problem in one_line(err)


def test_a_malformed_rule_exits_with_2_and_one_line(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "pack.yaml").write_text("code: OUR101\nname: [\n", encoding="utf-8")
    (project / "graphsafe.toml").write_text('rules = ["pack.yaml"]\n', encoding="utf-8")
    for arguments in (["scan", "hot.py"], ["rules"], ["rules", "test", "pack.yaml"]):
        code, out, err = here(capsys, *arguments)
        assert (code, out) == (2, "")
        assert "pack.yaml:" in one_line(err)


# explain, rules, report


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("GS101", "# GS101 scalar-read"),
        ("gs101", "# GS101 scalar-read"),
        ("scalar-read", "# GS101 scalar-read"),
        ("202", "# GS202 mask-index"),
        ("GS2", "# GS2 Shape depends on data"),
        ("gs", "# GS\n"),
        ("GS20", "# GS20\n"),
        ("E906", "# E906 cudaErrorStreamCaptureImplicit"),
        ("906", "# E906 cudaErrorStreamCaptureImplicit"),
        ("CUDA error 906", "# E906 cudaErrorStreamCaptureImplicit"),
        ("E700", "# E700 cudaErrorIllegalAddress"),
        ("700", "# E700 cudaErrorIllegalAddress"),
        ("E2", "# E2 cudaErrorMemoryAllocation"),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", "# E2 cudaErrorMemoryAllocation"),
        ("CUDA error: an illegal memory access was encountered", "# E700 cudaErrorIllegalAddress"),
        ("E910", "# E910 cudaErrorGraphExecUpdateFailure"),
        ("skipping cudagraphs due to mutated inputs (1 instances)", "# skipping cudagraphs"),
        ("cudaErrorStreamCaptureUnjoined", "# E904 cudaErrorStreamCaptureUnjoined"),
        ("Offset increment outside graph capture", "# Offset increment outside graph capture"),
        ("AcceleratorError: CUDA error: capturing stream has unjoined work\nmore", "# E904"),
        ("CUDA error: cannot be committed: cudaErrorStreamCaptureMerge", "# E902 cudaErrorStreamCaptureMerge"),
        (
            "This CUDAGraph instance already owns a captured graph. To capture a new graph, create a new instance.",
            "# This CUDAGraph instance already owns",
        ),
        ('captures_underway.empty() INTERNAL ASSERT FAILED at "CUDACachingAllocator.cpp":2967', "# captures_underway"),
        ("CUDA graph replay detected 3 dead tensor(s)", "# CUDA graph replay detected N dead tensor(s)"),
    ],
)
def test_explain_knows_rules_codes_and_texts(capsys: pytest.CaptureFixture[str], text: str, title: str) -> None:
    code, out, _ = here(capsys, "explain", text)
    assert code == 0 and out.startswith(title)


def test_a_number_of_a_rule_and_of_an_error_means_both(capsys: pytest.CaptureFixture[str]) -> None:
    out = here(capsys, "explain", "902")[1]
    assert "# GS902 suppression-without-reason" in out and "# E902 cudaErrorStreamCaptureMerge" in out


def test_explain_takes_an_error_text_without_quotes(capsys: pytest.CaptureFixture[str]) -> None:
    assert "graphsafe_set_state" in here(capsys, "explain", "Offset", "increment", "outside", "graph", "capture")[1]


def test_the_page_of_every_rule_says_what_why_and_how_to_mend(capsys: pytest.CaptureFixture[str]) -> None:
    listed = here(capsys, "rules")[1].splitlines()
    assert len(listed) >= 20
    for line in listed:
        page = here(capsys, "explain", line.split()[0])[1]
        around = page.partition("## In host code around graphs: a warning\n\n")[2].partition("\n\n")[0]
        assert all(len(row) <= 120 for row in around.splitlines())
        for heading in ("What it finds", "Why it breaks a capture", "What to write instead"):
            assert f"## {heading}" in page


def test_rules_are_listed_in_columns_and_configurations_in_blocks(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rule = (
        "code: LONGER101\nname: our-rule\nlevel: error\nsummary: S.\nwhat: W.\nwhy: W.\nfix: F.\nfix_short: f\n"
        "message: m\nmatch: []\n"
    )
    (project / "pack.yaml").write_text(rule, encoding="utf-8")
    (project / "graphsafe.toml").write_text('rules = ["pack.yaml"]\n', encoding="utf-8")
    listed = here(capsys, "rules")[1].splitlines()
    assert {line.index({"e": "error", "w": "warning", "n": "note"}[line[11]]) for line in listed} == {11}
    (project / "part").mkdir()
    (project / "part" / "graphsafe.toml").write_text("", encoding="utf-8")
    (project / "part" / "step.py").write_text("x = 1\n", encoding="utf-8")
    assert "\n\nproject root:" in here(capsys, "config")[1]


def test_rules_test_runs_the_cases_of_a_pack(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pack = project / "pack.yaml"
    marked = HOT.replace(".item()", ".item()  # expect: OUR101")
    pack.write_text(
        "code: OUR101\nname: our-rule\nlevel: error\nsummary: S.\nwhat: W.\nwhy: W.\nfix: F.\nfix_short: f\n"
        "message: '`{expr}` reads'\nmatch:\n  - event: HostRead\n    how: [method]\n"
        f"cases:\n  bad:\n    - title: found\n      code: |\n{indent(marked, ' ' * 8)}"
        "  good:\n    - title: nothing to find\n      code: |\n        pass\n",
        encoding="utf-8",
    )
    assert here(capsys, "rules", "test", "pack.yaml")[:2] == (0, "2 of 2 cases passed\n")
    pack.write_text(pack.read_text(encoding="utf-8").replace("[method]", "[cast]"), encoding="utf-8")
    code, out, _ = here(capsys, "rules", "test", "pack.yaml")
    assert code == 1
    assert out == "OUR101 bad case 'found': not found on line 7\n1 of 2 cases passed\n"


@pytest.mark.parametrize("form", [form for form in FORMS if form != "trace"])  # a scan has no step to draw
def test_report_turns_a_saved_report_into_every_form(
    project: Path, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    path = saved(project)
    code, out, err = here(capsys, "report", path, "--format", form)
    assert (code, err) == (0, "")
    assert out == render(read_saved(path), form, rules=lambda: load_rulebook().rules)


@pytest.mark.parametrize("form", ["terminal", "html"])
def test_report_shows_code_only_if_it_has_not_changed(
    project: Path, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    assert here(capsys, "scan", "hot.py", "-o", "scan.json")[0] == 1
    shown = here(capsys, "report", "scan.json", "--format", form)[1]
    assert "return x * " in shown
    hot = project / "hot.py"
    hot.write_text(hot.read_text(encoding="utf-8").replace(".item()", ".cpu().item()"), encoding="utf-8")
    code, out, err = here(capsys, "report", "scan.json", "--format", form)
    assert code == 0 and "return x * " not in out and "hot.py" in out
    assert err == "graphsafe: changed since the report was written, so their code is not shown: hot.py\n"


# failures of graphsafe itself


def test_a_fault_of_graphsafe_exits_with_3_and_says_what_to_report(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise IndexError("out of range")

    monkeypatch.setattr("graphsafe.rulebook.book.load_rulebook", broken)
    code, out, err = here(capsys, "explain", "GS101 with 'quotes'")
    assert (code, out) == (3, "")
    assert err.startswith("graphsafe: internal error: IndexError: out of range\n")
    assert "Please report it" in err and "graphsafe explain" in err and "test_cli.py" in err


def test_ctrl_c_is_one_line(project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("graphsafe.rulebook.book.load_rulebook", interrupted)
    code, out, err = here(capsys, "rules")
    assert (code, out, err.strip()) == (130, "", "graphsafe: interrupted")


@pytest.mark.child
def test_a_reader_that_leaves_early_is_no_error() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "graphsafe", "explain", "GS101"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait(timeout=60) == 141  # the code of a program that SIGPIPE has ended; 1 would mean findings


@pytest.mark.child
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a full disk")
@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["--version"], ["rules"], ["explain", "GS101"], ["scan", "."], ["scan", ".", "-o", "/dev/full"]],
)
def test_a_full_disk_is_one_line(project: Path, arguments: list[str]) -> None:
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "graphsafe", *arguments]
        process = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, cwd=project, env=SAME)
    assert process.returncode == 2
    assert process.stderr.count("\n") == 1 and "No space left on device" in process.stderr
    assert process.stderr.startswith("graphsafe: ")


@pytest.mark.child
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a full disk")
@pytest.mark.parametrize("arguments", [["scan", "absent"], ["scan", "--absent"], ["explain", "nothing such"]])
def test_a_full_disk_behind_stderr_changes_no_exit_code(project: Path, arguments: list[str]) -> None:
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "graphsafe", *arguments]
        assert subprocess.run(command, stderr=full, cwd=project, env=SAME).returncode == 2


@pytest.mark.child
@pytest.mark.skipif(os.name == "nt", reason="needs a shell that closes files")
def test_closed_streams_change_no_exit_code(project: Path) -> None:
    command = f"{shlex.quote(sys.executable)} -m graphsafe scan . >&- 2>&-"
    assert subprocess.run(["sh", "-c", command], cwd=project, env=SAME).returncode == 1


def test_what_is_said_on_stderr_moves_no_cursor(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = here(capsys, "scan", "a\x1b[2J\r\nb.py")
    assert (code, one_line(err)) == (2, "graphsafe: a?[2J??b.py: no such file or folder\n")


@pytest.mark.child
def test_output_is_utf8_safe_on_a_terminal_that_is_not(project: Path) -> None:
    (project / "hot.py").write_text(HOT.replace("x.sum()", "x.sum('überlänge')"), encoding="utf-8")
    scanned = run("scan", "hot.py", cwd=project, PYTHONIOENCODING="ascii:strict", PYTHONUTF8="0")
    assert scanned.returncode == 1 and "GS101" in scanned.stdout, scanned.stderr
