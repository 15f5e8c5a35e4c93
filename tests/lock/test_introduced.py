"""Which lines are new since the commit that last changed the lock, in real repositories."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from graphsafe.lock.regressions import introduced_since

NEW, OLD = "; introduced with this change", "; not in this change"


def git(*arguments: str, folder: Path | None = None) -> None:
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository whose lock and code were committed together, with one commit after it."""
    folder = tmp_path / "project"
    (folder / "sub").mkdir(parents=True)
    monkeypatch.chdir(folder)
    git("init", "-q", "-b", "main")
    Path("graphsafe.lock").write_text("version = 1\n")
    Path("cache.py").write_text("a = 1\nb = 2\nc = 3\n")
    git("add", ".")
    git("commit", "-qm", "locked")
    Path("cache.py").write_text("a = 1\nb = 2\nnew = 0\nc = 3\n")
    git("commit", "-qam", "a change")
    return folder


def test_committed_and_uncommitted_lines_since_the_lock_are_new(project: Path) -> None:
    Path("cache.py").write_text("a = 1\nb = 2\nnew = 0\nc = 3\nlast = 4\n")
    Path("sub/added.py").write_text("a = 1\n")
    said = introduced_since(project / "graphsafe.lock")
    assert [said("cache.py", line) for line in range(1, 6)] == [OLD, OLD, NEW, OLD, NEW]
    assert said("sub/added.py", 1) == NEW


def test_a_lock_that_was_written_again_is_the_new_start(project: Path) -> None:
    Path("graphsafe.lock").write_text("version = 1\n\n")
    assert introduced_since(project / "graphsafe.lock")("cache.py", 3) == NEW  # what is not committed is no start
    git("commit", "-qam", "locked anew")
    assert introduced_since(project / "graphsafe.lock")("cache.py", 3) == OLD


def test_nothing_is_said_where_it_is_not_known(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = introduced_since(project / "graphsafe.lock")
    (tmp_path / "outside.py").write_text("a = 1\n")
    installed = project / "venv" / "site-packages" / "library.py"
    installed.parent.mkdir(parents=True)
    installed.write_text("a = 1\n")
    assert said(str(tmp_path / "outside.py"), 1) == said("venv/site-packages/library.py", 1) == ""
    assert introduced_since(project / "other.lock")("cache.py", 3) == ""
    assert introduced_since(tmp_path / "graphsafe.lock")("cache.py", 3) == ""

    git("clone", "-q", "--depth", "1", project.as_uri(), str(tmp_path / "shallow"))
    monkeypatch.chdir(tmp_path / "shallow")
    assert introduced_since(Path.cwd() / "graphsafe.lock")("cache.py", 3) == ""
    git("fetch", "-q", "--unshallow")
    assert introduced_since(Path.cwd() / "graphsafe.lock")("cache.py", 3) == NEW
