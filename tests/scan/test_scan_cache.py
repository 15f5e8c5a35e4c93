"""What earlier scans leave behind is used only where nothing has changed, and never gets in the way."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from graphsafe.config import Config
from graphsafe.report.model import Report
from graphsafe.scan import api
from graphsafe.scan.cache import scan_cache
from graphsafe.scan.cache.folder import FOLDER, cache_folder
from graphsafe.scan.symbols import project_files
from graphsafe.scan.symbols.index import FileIndex

from .projects import text

MODEL = """\
import torch
from torch import nn

from helper import scaled


class Step(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return scaled(x)
"""
HELPER = """\
import torch


def scaled(x: torch.Tensor) -> torch.Tensor:
    return x * x.sum()
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    (root / "pyproject.toml").write_text("")
    (root / "model.py").write_text(MODEL)
    (root / "helper.py").write_text(HELPER)
    return root


def scan(
    root: Path,
    cache: Path | None,
    jobs: int = 1,
    config: Config | None = None,
    complain: Callable[[str], None] = lambda line: None,
) -> Report:
    return api.scan_paths([root], config or Config(root=root), cache=cache, jobs=jobs, complain=complain)


def kept_in(root: Path) -> list[Path]:
    """Return the two files of a cache: the indexes and the report."""
    indexes, report = sorted((root / FOLDER).glob("*.cache"))
    return [indexes, report]


def test_a_second_scan_says_the_same_without_reading(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cold = scan(project, project / FOLDER)

    def refuse(*_: object) -> Report:
        raise AssertionError("read again")

    monkeypatch.setattr(api, "_report", refuse)
    assert text(scan(project, project / FOLDER)) == text(cold)


def test_after_an_edit_only_the_edited_file_is_indexed(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scan(project, project / FOLDER)
    indexed: list[str] = []
    build = project_files.build_index

    def noted(*arguments: Any) -> FileIndex:
        indexed.append(Path(arguments[0].path).name)
        return build(*arguments)

    monkeypatch.setattr(project_files, "build_index", noted)
    (project / "helper.py").write_text("# Above.\n" + HELPER.replace("x.sum()", "x.sum().item()"))
    found = scan(project, project / FOLDER)
    assert indexed == ["helper.py"]
    assert [finding.location.line for finding in found.findings] == [6]
    assert text(found) == text(scan(project, None))


def test_a_package_that_comes_changes_the_names_of_its_files(project: Path) -> None:
    inner = project / "below" / "inner"
    inner.mkdir(parents=True)
    (project / "other_step.py").write_text(MODEL.replace("from helper", "from inner.other_helper"))
    (inner / "other_helper.py").write_text(HELPER.replace("x.sum()", "x.sum().item()"))
    before = scan(project, project / FOLDER)
    (inner / "__init__.py").write_text("")
    after = scan(project, project / FOLDER)
    assert (len(before.findings), len(after.findings)) == (0, 1)
    assert text(after) == text(scan(project, None))


def test_a_changed_helper_changes_the_findings_of_its_callers(project: Path) -> None:
    assert scan(project, project / FOLDER).findings == ()
    (project / "helper.py").write_text(HELPER.replace("x.sum()", "x.sum().item()"))
    found = scan(project, project / FOLDER)
    assert [(finding.code, Path(finding.location.path).name) for finding in found.findings] == [("GS101", "helper.py")]
    assert text(found) == text(scan(project, None))


def test_configuration_and_new_files_count(project: Path) -> None:
    (project / "helper.py").write_text(HELPER.replace("x.sum()", "x.sum().item()"))
    assert scan(project, project / FOLDER).findings
    assert not scan(project, project / FOLDER, config=Config(root=project, ignore=("GS101",))).findings
    (project / "broken.py").write_text("def (:\n")
    assert {finding.code for finding in scan(project, project / FOLDER).findings} == {"GS101", "GS900"}


@pytest.mark.parametrize("rest", [b"", b"\xff" * 4096, b"{}", b"[" * 100_000], ids=["cut off", "bytes", "JSON", "deep"])
def test_a_damaged_cache_is_made_anew(project: Path, rest: bytes) -> None:
    expected = text(scan(project, project / FOLDER))
    before = [kept.read_bytes() for kept in kept_in(project)]
    for kept in kept_in(project):
        kept.write_bytes(kept.read_bytes()[:40] + rest)
    complaints: list[str] = []
    assert text(scan(project, project / FOLDER, complain=complaints.append)) == expected
    assert complaints == []
    assert [len(kept.read_bytes()) for kept in kept_in(project)] == [len(content) for content in before]


@pytest.mark.parametrize("content", [b"", b"not a cache", b"graphsafe"])
def test_a_file_of_somebody_else_is_left_alone_and_said(project: Path, content: bytes) -> None:
    expected = text(scan(project, project / FOLDER))
    for kept in kept_in(project):
        kept.write_bytes(content)
    complaints: list[str] = []
    assert text(scan(project, project / FOLDER, complain=complaints.append)) == expected
    assert [kept.read_bytes() for kept in kept_in(project)] == [content] * 2
    assert len(complaints) == 1 and f"the cache {kept} is not used: it is damaged, or graphsafe" in complaints[0]


@pytest.mark.child
def test_no_flipped_bit_changes_a_report(project: Path) -> None:
    (project / "helper.py").write_text(HELPER.replace("x.sum()", "x.sum().item()"))
    expected = text(scan(project, project / FOLDER))
    good = {kept: kept.read_bytes() for kept in kept_in(project)}
    draw = random.Random(0)
    for _ in range(100):
        for kept, content in good.items():
            damaged = bytearray(content)
            for _ in range(3):
                damaged[draw.randrange(len(damaged))] ^= 1 << draw.randrange(8)
            kept.write_bytes(damaged)
        assert text(scan(project, project / FOLDER)) == expected


def test_only_the_newest_results_stay(project: Path) -> None:
    for number in range(scan_cache.MAX_REPORTS + 4):
        (project / "helper.py").write_text(f"{HELPER}# {number}\n")
        expected = text(scan(project, project / FOLDER))
    assert len([*(project / FOLDER).glob("report-*")]) == scan_cache.MAX_REPORTS
    (indexes,) = (project / FOLDER).glob("indexes-*")
    assert indexes.stat().st_size < 10_000
    assert text(scan(project, project / FOLDER)) == expected


@pytest.mark.parametrize("kind", ["a folder instead of the file", "a file instead of the folder"])
def test_a_cache_that_cannot_be_written_is_said_once(project: Path, kind: str) -> None:
    expected = text(scan(project, project / FOLDER))
    kept, report = kept_in(project)
    report.unlink()
    if kind == "a folder instead of the file":
        kept.unlink()
        kept.mkdir()
    else:
        shutil.rmtree(project / FOLDER)
        (project / FOLDER).write_text("")
    complaints: list[str] = []
    assert text(scan(project, project / FOLDER, complain=complaints.append)) == expected
    assert len(complaints) == 1 and f"the cache {kept} is not used: " in complaints[0]


@pytest.mark.skipif(os.name == "nt", reason="needs symbolic links")
def test_it_writes_nothing_through_links_of_the_project(project: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (project / FOLDER).symlink_to(outside)
    assert cache_folder(Config(root=project, source=project / "pyproject.toml")) != project / FOLDER
    (project / FOLDER).unlink()
    (project / FOLDER).mkdir()
    (project / FOLDER / ".gitignore").symlink_to(tmp_path / "made")
    scan(project, project / FOLDER)
    assert not (tmp_path / "made").exists()


def test_it_can_be_deleted_at_any_time(project: Path) -> None:
    expected = text(scan(project, project / FOLDER))
    shutil.rmtree(project / FOLDER)
    assert text(scan(project, project / FOLDER)) == expected


def test_git_does_not_see_it(project: Path) -> None:
    scan(project, project / FOLDER)
    assert (project / FOLDER / ".gitignore").read_text() == "*\n"


def test_it_lies_in_the_project_or_with_the_user(project: Path, tmp_path: Path) -> None:
    assert cache_folder(Config(root=project)) == project / FOLDER
    loose = tmp_path / "loose"
    loose.mkdir()
    assert tmp_path not in cache_folder(Config(root=loose)).parents


def test_one_file_is_read_with_what_leads_to_it(project: Path) -> None:
    (project / "helper.py").write_text(HELPER.replace("x.sum()", "x.sum().item()"))
    for number in range(20):
        (project / f"other{number}.py").write_text(MODEL.replace("helper", "elsewhere"))
    alone = api.scan_paths([project / "helper.py"], Config(root=project))
    whole = scan(project, None)
    assert alone.findings == whole.findings
    (finding,) = alone.findings
    assert [Path(site.path).name for site in finding.call_chain] == ["model.py"]
