"""After an upgrade, files that an earlier graphsafe has written are read, or refused in one clear line.

tests/data/upgrade was written by the version before: a baseline (with an owner added) and a report.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import graphsafe
from graphsafe import cli
from graphsafe.report.model import Report
from graphsafe.scan import api
from graphsafe.scan.cache import scan_cache
from graphsafe.scan.cache.folder import FOLDER

BEFORE = Path(__file__).parent / "data" / "upgrade"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text("[tool.graphsafe]\n", encoding="utf-8")
    for name in ("engine.py", "graphsafe-baseline.toml", "scan.json"):
        shutil.copy(BEFORE / name, tmp_path)
    return tmp_path


def own_cache(project: Path) -> Path:
    cli.main(["scan", "."])
    (file,) = (project / FOLDER).glob("indexes-*.cache")
    return file


def test_a_baseline_of_the_version_before_holds(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["scan", "."]) == 0
    assert capsys.readouterr().out == "no findings; 4 in the baseline; 1 root read\n"


def test_writing_it_anew_keeps_what_people_added(project: Path) -> None:
    before = (project / "graphsafe-baseline.toml").read_text(encoding="utf-8")
    assert 'owner = "kernels"' in before
    assert cli.main(["scan", "--write-baseline"]) == 0
    assert (project / "graphsafe-baseline.toml").read_text(encoding="utf-8") == before


@pytest.mark.parametrize("arguments", [["scan", "."], ["scan", "--write-baseline"], ["scan", "--baseline", "b.toml"]])
def test_a_baseline_of_a_later_version_is_refused_and_not_written_over(
    project: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("graphsafe-baseline.toml", "b.toml"):
        later = (BEFORE / "graphsafe-baseline.toml").read_text(encoding="utf-8").replace("version = 1", "version = 2")
        (project / name).write_text(later + 'new = "key"\n', encoding="utf-8")
    assert cli.main(arguments) == 2
    err = capsys.readouterr().err
    assert "a baseline of version 2, but this graphsafe reads version 1" in err and err.count("\n") == 1
    assert 'new = "key"' in (project / "graphsafe-baseline.toml").read_text(encoding="utf-8")


def test_a_report_of_the_version_before_is_read(project: Path) -> None:
    report = graphsafe.Report.load("scan.json")
    assert {one.code for one in report.findings} == {"GS101", "GS102", "GS202", "GS303"}
    now = {one.fingerprint for one in graphsafe.scan(".").findings}
    assert {one.fingerprint for one in report.findings} == now


def test_a_report_of_a_later_version_is_refused(project: Path) -> None:
    text = (project / "scan.json").read_text(encoding="utf-8").replace("graphsafe/report/1", "graphsafe/report/2")
    (project / "scan.json").write_text(text, encoding="utf-8")
    with pytest.raises(graphsafe.RequestError, match=r"scan.json: schema 'graphsafe/report/2' is not one that this"):
        graphsafe.Report.load("scan.json")


def test_a_cache_of_another_version_is_no_answer(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "graphsafe-baseline.toml").unlink()
    report = api._report

    def without_findings(*arguments: object) -> Report:
        return replace(report(*arguments), findings=())  # type: ignore[arg-type]

    with monkeypatch.context() as older:
        older.setattr(scan_cache, "__version__", "0.0.9")
        older.setattr(api, "_report", without_findings)
        assert cli.main(["scan", "."]) == 0
    capsys.readouterr()
    assert cli.main(["scan", ".", "-o", "cached.json"]) == 1
    assert cli.main(["scan", ".", "--no-cache", "-o", "fresh.json"]) == 1
    assert capsys.readouterr().err == ""
    assert graphsafe.Report.load("cached.json").findings == graphsafe.Report.load("fresh.json").findings


def test_every_version_has_a_cache_of_its_own(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = own_cache(project)
    with monkeypatch.context() as older:
        older.setattr(scan_cache, "__version__", "0.0.9")
        cli.main(["scan", "."])
    assert len(list((project / FOLDER).glob("indexes-*.cache"))) == 2
    before = ours.stat().st_mtime_ns
    cli.main(["scan", "."])
    assert ours.stat().st_mtime_ns == before


def test_caches_of_versions_that_nobody_runs_any_more_go(project: Path) -> None:
    ours = own_cache(project)
    for number in range(10):
        old = ours.with_name(f"indexes-{number:016x}.cache")
        shutil.copy(ours, old)
        os.utime(old, (number, number))
    (project / "engine.py").write_text("x = 1\n", encoding="utf-8")
    cli.main(["scan", "."])
    left = sorted(file.name for file in (project / FOLDER).glob("indexes-*.cache"))
    assert ours.name in left and len(left) == scan_cache.MAX_VERSIONS
