"""A scan believes no cache that a repository brings, and removes no file that it did not write."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from graphsafe import cli
from graphsafe.report.model import Report
from graphsafe.scan import api
from graphsafe.scan.symbols import project_files

STEP = """\
import torch
from torch import nn


class Step(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * x.sum().item()
"""
As = Callable[[str], None]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    (root / "pyproject.toml").write_text("", encoding="utf-8")
    (root / "step.py").write_text(STEP, encoding="utf-8")
    monkeypatch.chdir(root)
    return root


@pytest.fixture
def work_as(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> As:
    """Work as a user of that name, who has a cache folder of their own."""

    def work(name: str) -> None:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / name))
        monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / name))
        monkeypatch.setenv("HOME", str(tmp_path / name))

    work("user")
    return work


def hide_findings(patch: pytest.MonkeyPatch) -> None:
    report = api._report

    def without_findings(*arguments: object) -> Report:
        return replace(report(*arguments), findings=())  # type: ignore[arg-type]

    patch.setattr(api, "_report", without_findings)


def hide_functions(patch: pytest.MonkeyPatch) -> None:
    build = project_files.build_index

    def without_functions(*arguments: object) -> object:
        index = build(*arguments)  # type: ignore[arg-type]
        index.functions.clear()
        index.classes.clear()
        return index

    patch.setattr(project_files, "build_index", without_functions)


@pytest.mark.parametrize("options", [(), ("--cache-dir", "checked-in")], ids=["default", "--cache-dir"])
@pytest.mark.parametrize("hide", [hide_findings, hide_functions])
def test_a_forged_cache_hides_nothing(
    project: Path,
    work_as: As,
    hide: Callable[[pytest.MonkeyPatch], None],
    options: tuple[str, ...],
    capsys: pytest.CaptureFixture[str],
) -> None:
    work_as("attacker")
    with pytest.MonkeyPatch.context() as patch:
        hide(patch)
        assert cli.main(["scan", *options]) == 0
        (forged,) = project.rglob("report-*.cache")
        if hide is hide_functions:
            forged.unlink()
        assert cli.main(["scan", *options]) == 0, "the forged cache holds for whoever made it"
    work_as("user")
    capsys.readouterr()
    for _ in range(2):
        assert cli.main(["scan", *options]) == 1
        out, err = capsys.readouterr()
        assert "GS101" in out and err == ""


def test_a_file_is_believed_only_under_its_own_name(project: Path, work_as: As) -> None:
    (project / "step.py").write_text(STEP.replace(".item()", ""), encoding="utf-8")
    assert cli.main(["scan"]) == 0
    (clean,) = project.rglob("report-*.cache")
    (project / "step.py").write_text(STEP, encoding="utf-8")
    assert cli.main(["scan"]) == 1
    (kept,) = {*project.rglob("report-*.cache")} - {clean}
    shutil.copy(clean, kept)
    assert cli.main(["scan"]) == 1


@pytest.mark.skipif(os.name == "nt", reason="Windows has other modes")
def test_the_secret_is_the_users_own(project: Path, work_as: As, tmp_path: Path) -> None:
    cli.main(["scan"])
    secret = (tmp_path / "user" / "graphsafe" / "cache-key").read_bytes()
    assert stat.S_IMODE((tmp_path / "user" / "graphsafe" / "cache-key").stat().st_mode) == 0o600
    assert not any(secret in file.read_bytes() for file in project.rglob("*") if file.is_file())


def test_a_user_without_a_cache_folder_has_no_cache(
    project: Path, work_as: As, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "user").write_text("no folder", encoding="utf-8")
    assert cli.main(["scan"]) == 1
    assert "no cache is used" in capsys.readouterr().err
    assert not list(project.rglob("*.cache"))


def test_it_removes_and_hides_no_file_that_it_did_not_write(project: Path, work_as: As, tmp_path: Path) -> None:
    own = project / "data"
    own.mkdir()
    cli.main(["scan", "--cache-dir", "data"])
    for file in own.iterdir():
        if file.name == ".gitignore":
            file.unlink()
        else:
            file.write_text("measurements\n", encoding="utf-8")
    for number in range(20):
        for kind in ("indexes", "report"):
            (own / f"{kind}-{number}.cache").write_text("measurements\n", encoding="utf-8")
            os.utime(own / f"{kind}-{number}.cache", (number, number))
    before = {file.name: file.read_bytes() for file in own.iterdir()}
    for _ in range(2):
        assert cli.main(["scan", "--cache-dir", "data"]) == 1
    assert {file.name: file.read_bytes() for file in own.iterdir()} == before
    assert ".gitignore" not in before


@pytest.mark.skipif(os.name == "nt", reason="needs symbolic links and a fifo")
def test_a_cache_that_is_a_link_or_a_pipe_is_left_alone(
    project: Path, work_as: As, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["scan"]) == 1
    folder = project / ".graphsafe_cache"
    outside = tmp_path / "empty"
    outside.touch()
    for kept in folder.glob("*.cache"):
        kept.unlink()
        kept.symlink_to(outside)
    for number in range(6):
        os.mkfifo(folder / f"indexes-{number}.cache")
    capsys.readouterr()
    assert cli.main(["scan"]) == 1
    assert "graphsafe did not write it" in capsys.readouterr().err
    assert outside.read_bytes() == b""
    for kept in (kept for kept in folder.glob("*.cache") if kept.is_symlink()):
        kept.unlink()
        os.mkfifo(kept)
    assert cli.main(["scan"]) == 1
    assert len([*folder.glob("indexes-?.cache")]) == 6
