"""A scan believes no cache that a repository brings, and removes no file that it did not write."""

from __future__ import annotations

import os
import sqlite3
import stat
import struct
import sys
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from graphsafe import cli
from graphsafe.report.model import Report
from graphsafe.scan import api
from graphsafe.scan.cache import sealed_rows
from graphsafe.scan.cache.sealed_rows import SealedRows
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
        (forged,) = project.rglob("*.db")
        if hide is hide_functions:
            with sqlite3.connect(forged) as database:
                database.execute("delete from reports")
        assert cli.main(["scan", *options]) == 0, "the forged cache holds for whoever made it"
    work_as("user")
    capsys.readouterr()
    for _ in range(2):
        assert cli.main(["scan", *options]) == 1
        out, err = capsys.readouterr()
        assert "GS101" in out and err == ""


def test_a_row_is_believed_only_under_its_own_key(project: Path, work_as: As) -> None:
    (project / "step.py").write_text(STEP.replace(".item()", ""), encoding="utf-8")
    assert cli.main(["scan"]) == 0
    (kept,) = project.rglob("*.db")
    with sqlite3.connect(kept) as database:
        ((clean,),) = database.execute("select data from reports").fetchall()
    (project / "step.py").write_text(STEP, encoding="utf-8")
    assert cli.main(["scan"]) == 1
    with sqlite3.connect(kept) as database:
        database.execute("update reports set data = ?", (clean,))
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
    assert not list(project.rglob("*.db"))


def test_it_removes_and_hides_no_file_that_it_did_not_write(project: Path, work_as: As, tmp_path: Path) -> None:
    own = project / "data"
    own.mkdir()
    cli.main(["scan", "--cache-dir", "data"])
    (name,) = (file.name for file in own.glob("*.db"))
    (own / name).unlink()
    (own / name).write_text("measurements\n", encoding="utf-8")
    for number in range(6):
        (own / f"scan-{number}.db").write_text("measurements\n", encoding="utf-8")
        os.utime(own / f"scan-{number}.db", (number, number))
    with sqlite3.connect(own / "scan-of-march.db") as database:
        database.execute("create table measured (seconds real)")
    database.close()
    os.utime(own / "scan-of-march.db", (0, 0))
    before = {file.name: file.read_bytes() for file in own.iterdir()}
    for _ in range(2):
        assert cli.main(["scan", "--cache-dir", "data"]) == 1
    assert {file.name: file.read_bytes() for file in own.iterdir()} == before
    assert ".gitignore" not in before


def journal_that_names(victim: Path, pages: int) -> bytes:
    """Return a journal of SQLite's without a page in it: who opens its database deletes `victim` by playing it back."""
    magic = bytes.fromhex("d9d505f920a163d7")
    name = os.fsencode(victim)
    head = (magic + struct.pack(">IIIII", 0, 0, pages, 512, 4096)).ljust(512, b"\0")
    return head + struct.pack(">I", (1 << 30) // 4096 + 1) + name + struct.pack(">II", len(name), sum(name)) + magic


@pytest.mark.parametrize("options", [(), ("--cache-dir", "checked-in")], ids=["default", "--cache-dir"])
def test_a_journal_beside_the_cache_deletes_no_file_of_the_users(
    project: Path, work_as: As, options: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious", encoding="utf-8")
    assert cli.main(["scan", *options]) == 1
    (kept,) = project.rglob("*.db")
    journal = Path(f"{kept}-journal")
    assert not journal.exists()
    journal.write_bytes(journal_that_names(victim, kept.stat().st_size // 4096))
    capsys.readouterr()
    assert cli.main(["scan", *options]) == 1
    assert "which graphsafe did not write" in capsys.readouterr().err
    assert victim.read_text(encoding="utf-8") == "precious"
    assert journal.exists()


@pytest.mark.skipif(os.name == "nt", reason="needs symbolic links and a fifo")
def test_a_cache_that_is_a_link_or_a_pipe_is_left_alone(project: Path, work_as: As, tmp_path: Path) -> None:
    assert cli.main(["scan"]) == 1
    (kept,) = project.rglob("*.db")
    outside = tmp_path / "empty"
    outside.touch()
    kept.unlink()
    kept.symlink_to(outside)
    for number in range(6):
        os.mkfifo(kept.with_name(f"scan-{number}.db"))
    assert cli.main(["scan"]) == 1
    assert outside.read_bytes() == b""
    assert len([*kept.parent.glob("scan-?.db")]) == 6


def test_rows_that_the_scan_does_not_ask_for_are_not_read(
    project: Path, work_as: As, capsys: pytest.CaptureFixture[str]
) -> None:
    """A forged file of two megabytes can have thousands of rows that share its pages, each as long as the file."""
    assert cli.main(["scan"]) == 1
    (kept,) = project.rglob("*.db")
    with sqlite3.connect(kept) as database:
        rows = ((str(number), "x" * 1_000_000) for number in range(60))
        database.executemany("insert into indexes values (?, ?)", rows)
    database.close()
    (project / "step.py").write_text(STEP + "\n", encoding="utf-8")
    tracemalloc.start()
    try:
        assert cli.main(["scan", "-j", "1"]) == 1
        assert tracemalloc.get_traced_memory()[1] < 30_000_000
    finally:
        tracemalloc.stop()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("name", "value"), [("MAX_TEXT", -900), ("_MOST_STEPS", 0)], ids=["a row too long", "a search without an end"]
)
@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python's sqlite3 has no limits")
def test_a_forged_cache_is_replaced(tmp_path: Path, name: str, value: int, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []

    def rows() -> SealedRows:
        return SealedRows(tmp_path / "scan.db", ("reports", "indexes"), b"secret", said.append)

    rows().write("reports", [("key", "a report" * 100)], 5)
    assert rows().text("reports", "key") == "a report" * 100
    with monkeypatch.context() as patch:
        patch.setattr(sealed_rows, name, value)
        patch.setattr(sealed_rows, "_STEP", 1)
        assert rows().text("reports", "key") is None
    assert not (tmp_path / "scan.db").exists()
    rows().write("reports", [("key", "a report")], 5)
    assert rows().text("reports", "key") == "a report"
    assert said == []
