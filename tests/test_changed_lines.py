"""`scan --diff REV`: findings on changed lines, and no others."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from graphsafe import cli
from graphsafe.git.changed_lines import changed_lines

HOT = """\
import torch
from torch import nn


class Step(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * x.sum().item()
"""
MORE = HOT.replace("        return", "        y = x[x > 0]\n        return")


class Repository:
    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._capsys = capsys
        self.git("init", "-q", "-b", "main")

    def git(self, *arguments: str) -> None:
        identity = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
        subprocess.run(["git", *identity, *arguments], cwd=self.folder, check=True, capture_output=True)

    def commit(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text, encoding="utf-8")
        self.git("add", ".")
        self.git("commit", "-qm", "a change")

    def scan(self, *arguments: str) -> tuple[int, str, str]:
        code = cli.main(["scan", *arguments, "--format", "concise"])
        out, err = self._capsys.readouterr()
        return code, out, err

    def places(self, *arguments: str) -> list[str]:
        return [" ".join(line.split(" ")[:2]) for line in self.scan(*arguments)[1].splitlines()]


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Repository:
    """Make a repository with one commit that has one finding."""
    monkeypatch.chdir(tmp_path)
    repository = Repository(tmp_path, capsys)
    (tmp_path / "graphsafe.toml").write_text("", encoding="utf-8")
    repository.commit("hot.py", HOT)
    return repository


def test_only_findings_on_changed_lines_are_reported(repository: Repository) -> None:
    assert repository.scan(".", "--diff", "HEAD") == (0, "", "")
    (repository.folder / "hot.py").write_text("import os\n" + MORE, encoding="utf-8")
    assert repository.places(".") == ["hot.py:8:13: GS202", "hot.py:9:20: GS101"]
    assert repository.places(".", "--diff", "HEAD") == ["hot.py:8:13: GS202"]
    repository.git("commit", "-qam", "more")
    assert repository.places("hot.py", "--diff", "HEAD~1") == ["hot.py:8:13: GS202"]
    assert repository.scan(".", "--diff", "HEAD") == (0, "", "")


def test_a_finding_over_several_lines_counts_if_one_of_them_changed(repository: Repository) -> None:
    repository.commit("hot.py", HOT.replace("x.sum().item()", "x.sum(\n            -1,\n        ).item()"))
    (repository.folder / "hot.py").write_text(
        HOT.replace("x.sum().item()", "x.sum(\n            0,\n        ).item()"), encoding="utf-8"
    )
    assert repository.places(".", "--diff", "HEAD") == ["hot.py:7:20: GS101"]


def test_new_files_are_changed_and_renamed_ones_are_not(repository: Repository) -> None:
    (repository.folder / "new.py").write_text(HOT, encoding="utf-8")
    repository.git("mv", "hot.py", "moved.py")
    assert repository.places(".", "--diff", "HEAD") == ["new.py:7:20: GS101"]
    repository.git("add", ".")
    assert [place.split(":")[0] for place in repository.places(".", "--diff", "HEAD")] == ["new.py"]


def test_what_the_other_branch_changed_meanwhile_is_not_ours(repository: Repository) -> None:
    repository.git("switch", "-qc", "ours")
    repository.commit("ours.py", HOT)
    repository.git("switch", "-q", "main")
    repository.commit("hot.py", HOT.replace(".item()", ""))
    repository.git("switch", "-q", "ours")
    assert repository.places(".", "--diff", "main") == ["ours.py:7:20: GS101"]


def test_line_ends_of_the_work_tree_are_no_change(repository: Repository) -> None:
    (repository.folder / "hot.py").write_bytes(MORE.replace("\n", "\r\n").encode())
    assert repository.places(".", "--diff", "HEAD") == ["hot.py:7:13: GS202"]


@pytest.mark.skipif(os.name == "nt", reason="needs symbolic links")
def test_a_link_changes_when_it_leads_elsewhere(repository: Repository) -> None:
    (repository.folder / "link.py").symlink_to("hot.py")
    repository.commit("other.py", HOT)
    assert repository.places(".", "--diff", "HEAD") == []
    (repository.folder / "link.py").unlink()
    (repository.folder / "link.py").symlink_to("other.py")
    assert repository.places(".", "--diff", "HEAD") == ["link.py:7:20: GS101"]


def test_what_a_submodule_holds_is_its_own_matter(repository: Repository) -> None:
    (repository.folder / "inner").mkdir()
    inner = ["-C", "inner", "-c", "user.name=a", "-c", "user.email=a@example.com"]
    (repository.folder / "inner" / "hot.py").write_text(HOT, encoding="utf-8")
    repository.git("-C", "inner", "init", "-q")
    repository.git(*inner, "add", ".")
    repository.git(*inner, "commit", "-qm", "inner")
    repository.commit("more.py", HOT)
    (repository.folder / "inner" / "hot.py").write_text(MORE, encoding="utf-8")
    code, out, err = repository.scan(".", "--diff", "HEAD", "-q")
    assert (code, out) == (0, "")
    assert err.startswith("graphsafe: inner: a submodule; ")


def test_what_fixes_move_down_has_not_changed(repository: Repository) -> None:
    """Findings are located by the lines after the fixes, not by the saved lines."""
    literal = "torch.tensor([\n            2.0, 2.0\n        ], device=x.device)"
    fixable = HOT.replace("        return", f"        x = x + {literal}\n        return")
    (repository.folder / "hot.py").write_text(fixable, encoding="utf-8")
    assert repository.places(".", "--diff", "HEAD", "--fix") == ["hot.py:7:17: GS401"]


def test_it_is_the_same_from_every_folder_and_in_a_hook(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    (repository.folder / "sub").mkdir()
    repository.commit("sub/hot.py", HOT)
    (repository.folder / "sub" / "hot.py").write_text(MORE, encoding="utf-8")
    monkeypatch.chdir(repository.folder / "sub")
    monkeypatch.setenv("GIT_DIR", ".git")
    monkeypatch.setenv("GIT_INDEX_FILE", ".git/index")
    assert (
        repository.places("..", "--diff", "HEAD") == repository.places(".", "--diff", "HEAD") == ["hot.py:7:13: GS202"]
    )


def test_a_users_git_settings_change_nothing(repository: Repository) -> None:
    for setting in ("diff.noprefix=true", "diff.interHunkContext=9", "color.ui=always", "diff.external=false"):
        repository.git("config", *setting.split("="))
    (repository.folder / "hot.py").write_text("import os\n" + MORE, encoding="utf-8")
    assert repository.places(".", "--diff", "HEAD") == ["hot.py:8:13: GS202"]


@pytest.mark.skipif(os.name == "nt", reason="no such names there")
def test_odd_names_and_lines_that_look_like_a_diff(repository: Repository) -> None:
    repository.commit('ü "a"\t.py', HOT)
    text = MORE.replace("import torch\n", 'import torch\nTEXT = """\n++ b/hot.py\n@@ -1 +1,99 @@\n"""\n')
    (repository.folder / 'ü "a"\t.py').write_text(text, encoding="utf-8")
    assert repository.scan(".", "--diff", "HEAD")[1].count("\n") == 1
    assert list(
        changed_lines(b"--- a/x\n+++ b/x y\t\n@@ -2 +2,2 @@\n-++ b/z\n+a\n+++ b/w\n@@ -9,2 +9,0 @@\n-a\n-b\n")
    ) == [("x y", [range(2, 4)])]


def test_stale_entries_of_a_baseline_wait_for_a_whole_scan(repository: Repository) -> None:
    cli.main(["scan", ".", "--write-baseline"])
    repository.commit("hot.py", HOT.replace(".item()", ""))
    repository.scan(".")
    assert repository.places(".", "--diff", "HEAD") == []
    assert "GS903" in repository.scan(".")[1]


def test_a_wrong_request_is_one_line(repository: Repository, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (outside / "hot.py").write_text(HOT, encoding="utf-8")
    for arguments, problem in (
        ([".", "--diff", "nowhere"], '--diff: no revision "nowhere" in the git repository '),
        ([".", "--diff", "--all"], '--diff: no revision "--all"'),
        ([".", "--diff", ""], '--diff: no revision ""'),
        ([str(outside), "--diff", "HEAD"], "is not in a git repository"),
        ([".", str(outside), "--diff", "HEAD"], "is not in the git repository"),
    ):
        code, out, err = repository.scan(*arguments)
        assert (code, out, err.count("\n")) == (2, "", 1) and problem in err
    assert cli.main(["scan", ".", "--diff", "HEAD", "--write-baseline"]) == 2


def test_in_a_shallow_clone_it_says_how_to_get_the_revision(
    repository: Repository, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.commit("hot.py", MORE)
    clone = tmp_path_factory.mktemp("clone")
    repository.git("clone", "-q", "--depth", "1", repository.folder.as_uri(), str(clone))
    monkeypatch.chdir(clone)
    code, out, err = repository.scan(".", "--diff", "HEAD~1")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert 'no revision "HEAD~1"' in err and "`git fetch --unshallow`" in err and "`fetch-depth: 0`" in err


def test_without_git_it_says_so(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert repository.scan(".", "--diff", "HEAD") == (2, "", "graphsafe: --diff: git is not installed\n")
