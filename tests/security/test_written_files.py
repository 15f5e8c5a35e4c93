"""--fix, --add-ignore and --write-baseline write the project's files only, and never over what a user has saved."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from graphsafe import cli, held_files
from graphsafe.baseline.baseline_file import NAME
from graphsafe.scan_request import request as scan_request

STEP = """\
import torch
from torch import nn


class Step(nn.Module):
    def forward(self, x: torch.Tensor):
        return x + torch.tensor(3.0, device=x.device)
"""
FIXED = STEP.replace("torch.tensor(3.0", "torch.full((), 3.0")
REPAIRS = [["--fix"], ["--add-ignore", "known"]]
links = pytest.mark.skipif(os.name == "nt", reason="needs symbolic links")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "pyproject.toml").write_text("[tool.graphsafe]\n", encoding="utf-8")
    (folder / "step.py").write_text(STEP, encoding="utf-8")
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize("repair", REPAIRS, ids=lambda words: words[0])
def test_what_is_saved_after_the_files_were_read_stays(
    project: Path, repair: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "other.py").write_text(STEP, encoding="utf-8")
    saved = STEP.replace("3.0", "4.0")
    write = held_files.HeldFiles.write

    def write_late(files: held_files.HeldFiles) -> bool:
        (project / "step.py").write_text(saved, encoding="utf-8")
        return write(files)

    monkeypatch.setattr(held_files.HeldFiles, "write", write_late)
    assert cli.main(["scan", ".", *repair]) == 1
    out, err = capsys.readouterr()
    assert (project / "step.py").read_text(encoding="utf-8") == saved
    assert (project / "other.py").read_text(encoding="utf-8") != STEP
    assert err.splitlines()[-1] == "graphsafe: step.py: has changed since it was read; not written"
    assert "1 finding" in out + err
    if repair == ["--fix"]:
        assert "step.py:7:" in out  # what is left is that of the file as it is
    assert {path.name for path in project.iterdir()} >= {"step.py", "other.py"}
    assert not [path for path in project.iterdir() if path.name.startswith(".step")]


@pytest.mark.parametrize("repair", REPAIRS, ids=lambda words: words[0])
def test_what_is_saved_during_the_scan_is_what_is_repaired(
    project: Path, repair: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first report is about lines that are somewhere else by now."""
    run_part, moved = scan_request.run_part, "# a line more\n" + STEP

    def run_and_save(*arguments, **options):  # type: ignore[no-untyped-def]
        report = run_part(*arguments, **options)
        if not options["buffers"]:
            (project / "step.py").write_text(moved, encoding="utf-8")
        return report

    monkeypatch.setattr("graphsafe.commands.scan_modes.run_part", run_and_save)
    cli.main(["scan", ".", *repair])
    comment = "  # graphsafe: ignore[GS301] known\n"
    wanted = FIXED if repair == ["--fix"] else STEP.rstrip("\n") + comment
    assert (project / "step.py").read_text(encoding="utf-8") == "# a line more\n" + wanted


@links
@pytest.mark.parametrize("repair", [*REPAIRS, ["--fix", "--unsafe-fixes"]], ids=lambda words: words[-1])
def test_a_file_outside_of_the_project_is_never_written(
    project: Path, repair: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    outside = project.parent / "victim.py"
    outside.write_text(STEP, encoding="utf-8")
    (project / "link.py").symlink_to(outside)
    (project / "folder").symlink_to(project.parent)
    for path in ("link.py", "."):
        cli.main(["scan", path, *repair])
        assert outside.read_text(encoding="utf-8") == STEP, path
    assert "link.py: points outside the project; not written" in capsys.readouterr().err


@links
def test_links_to_one_file_are_one_file(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "a.py").symlink_to("step.py")
    assert cli.main(["scan", ".", "--fix"]) == 0
    assert (project / "step.py").read_text(encoding="utf-8") == FIXED
    assert (project / "a.py").is_symlink()
    assert capsys.readouterr().err == "graphsafe: 1 finding fixed in 1 file\n"


@links
@pytest.mark.parametrize("there", [True, False])
def test_a_baseline_that_leads_out_of_the_project_is_not_written(
    project: Path, there: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    outside = project.parent / "startup"
    if there:
        outside.write_text("version = 1\n", encoding="utf-8")
    (project / NAME).symlink_to(outside)
    assert cli.main(["scan", ".", "--write-baseline"]) == 2
    assert capsys.readouterr().err == f"graphsafe: {NAME}: points outside the project; give --baseline to write it\n"
    assert not there or outside.read_text(encoding="utf-8") == "version = 1\n"
    assert there or not outside.exists()
    assert cli.main(["scan", ".", "--write-baseline", "--baseline", str(outside)]) == 0


@links
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("graphsafe-report.json", ["capture", "step.py:build", "--device", "sim"]),
        ("graphsafe-ledger.json", ["run", "--", "true"]),
        ("graphsafe.lock", ["capture", "--all", "--update-lock", "-o", "report.json"]),
    ],
)
@pytest.mark.parametrize("there", [True, False])
def test_a_file_that_the_user_did_not_name_leads_nowhere_else(
    project: Path, name: str, words: list[str], there: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    outside = project.parent / "startup"
    if there:
        outside.write_text("theirs", encoding="utf-8")
    (project / name).symlink_to(outside)
    (project / "pyproject.toml").write_text(
        "[tool.graphsafe.targets.step]\nfactory = 'step.py:build'\n", encoding="utf-8"
    )
    assert cli.main(words) == 2
    said = capsys.readouterr().err
    assert f"{name}: points outside the " in said and said.count("\n") == 1
    assert outside.read_text(encoding="utf-8") == "theirs" if there else not outside.exists()
    left = {"report.json"} if "report.json" in words else set[str]()  # a refused request has its report
    assert {path.name for path in project.iterdir()} == {"pyproject.toml", "step.py", name, *left}


@pytest.mark.skipif(os.name == "nt", reason="needs a fifo")
def test_a_pipe_for_a_baseline_is_one_line(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(project / NAME)
    for options in ([], ["--write-baseline"]):
        assert cli.main(["scan", ".", *options]) == 2
        assert capsys.readouterr().err.count("\n") == 1


def test_unsafe_fixes_say_when_they_give_another_result(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = STEP.replace(
        "    def forward",
        "    def __init__(self):\n        super().__init__()\n"
        '        self.register_buffer("state", torch.zeros(1))\n\n    def forward',
    ).replace("return x + torch.tensor(3.0, device=x.device)", "self.state = self.state + x\n        return self.state")
    (project / "step.py").write_text(text, encoding="utf-8")
    assert cli.main(["scan", ".", "--fix", "--unsafe-fixes", "--exit-zero"]) == 0
    assert "self.state.add_(x)" in (project / "step.py").read_text(encoding="utf-8")
    said = capsys.readouterr().err
    assert "step.py:11: unsafe: it fails where the other side has a larger shape or a wider dtype" in said
