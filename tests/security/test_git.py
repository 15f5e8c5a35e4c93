"""`scan --diff` reads a repository, and runs nothing that this repository names."""

from __future__ import annotations

import hashlib
import os
import subprocess
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from graphsafe import cli
from graphsafe.git import calls as git
from graphsafe.lock.regressions import introduced_since

pytestmark = [
    pytest.mark.child,
    pytest.mark.skipif(os.name == "nt", reason="the programs of the attack are shell scripts"),
]

HOT = """\
import torch
from torch import nn


class Step(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * x.sum().item()
"""
MORE = HOT.replace("        return", "        y = x[x > 0]\n        return")


class Victim:
    """A repository with one finding in its commit and one more in the work tree, and a file that shows an attack."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "project"
        self.ran = folder / "RAN"
        self.folder.mkdir()
        self.git("init", "-q", "-b", "main")
        self.write("graphsafe.toml", "")
        self.write("hot.py", HOT)
        self.commit()
        self.write("hot.py", MORE)

    def git(self, *arguments: str) -> str:
        identity = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
        done = subprocess.run(
            ["git", *identity, *arguments], cwd=self.folder, check=True, capture_output=True, text=True
        )
        return done.stdout

    def commit(self) -> None:
        self.git("add", ".")
        self.git("commit", "-qm", "a change")

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def program(self, name: str) -> Path:
        path = self.write(name, f"#!/bin/sh\ntouch '{self.ran}'\ncat\n")
        path.chmod(0o755)
        return path

    def configure(self, *settings: str) -> None:
        for setting in settings:
            key, _, value = setting.partition("=")
            self.git("config", key, value)

    def lose_blob(self) -> None:
        """Remove a stored content, as a partial clone lacks it."""
        blob = self.git("rev-parse", "HEAD:hot.py").strip()
        (self.folder / ".git" / "objects" / blob[:2] / blob[2:]).unlink()


Attack = Callable[[Victim], None]


def a_file_monitor(victim: Victim) -> None:
    victim.configure(f"core.fsmonitor={victim.program('monitor')}")


def a_file_monitor_by_include(victim: Victim) -> None:
    victim.write("more.cfg", f'[core]\n\tfsmonitor = "{victim.program("monitor")}"\n')
    victim.configure("include.path=../more.cfg")


def a_file_monitor_by_conditional_include(victim: Victim) -> None:
    victim.write("more.cfg", f'[core]\n\tfsmonitor = "{victim.program("monitor")}"\n')
    victim.configure(f"includeIf.gitdir:{victim.folder}/.path=../more.cfg")


def a_clean_filter(victim: Victim) -> None:
    victim.write(".gitattributes", "*.py filter=evil\n")
    victim.configure(f"filter.evil.clean={victim.program('clean')}")


def a_filter_process(victim: Victim) -> None:
    victim.write(".git/info/attributes", "*.py filter=evil\n")
    victim.configure(f"filter.evil.process={victim.program('clean')}")


def a_filter_by_a_configured_attributes_file(victim: Victim) -> None:
    victim.write("attributes", "*.py filter=evil\n")
    victim.configure("core.attributesFile=attributes", f"filter.evil.clean={victim.program('clean')}")


def a_folder_of_hooks(victim: Victim) -> None:
    victim.program("hooks/post-index-change")
    victim.configure(f"core.hooksPath={victim.folder / 'hooks'}")
    os.utime(victim.folder / "graphsafe.toml", (1, 1))  # git writes its index anew


def a_hook(victim: Victim) -> None:
    victim.program(".git/hooks/post-index-change")
    os.utime(victim.folder / "graphsafe.toml", (1, 1))


def a_diff_driver(victim: Victim) -> None:
    victim.write(".gitattributes", "*.py diff=evil\n")
    program = victim.program("driver")
    victim.configure(f"diff.evil.command={program}", f"diff.evil.textconv={program}", f"diff.external={program}")


def a_pager(victim: Victim) -> None:
    program = victim.program("pager")
    victim.configure(f"core.pager={program}", f"pager.diff={program}", f"core.editor={program}")


def an_alias(victim: Victim) -> None:
    program = victim.program("alias")
    victim.configure(*(f"alias.{name}=!{program}" for name in ("rev-parse", "merge-base", "ls-tree", "diff")))


def a_checker_of_signatures(victim: Victim) -> None:
    victim.configure("log.showSignature=true", f"gpg.program={victim.program('checker')}", "user.signingKey=a")


def a_program_called_git(victim: Victim) -> None:
    victim.program("git")


HOSTILE: dict[str, Attack] = {
    attack.__name__: attack
    for attack in (
        a_file_monitor,
        a_file_monitor_by_include,
        a_file_monitor_by_conditional_include,
        a_clean_filter,
        a_filter_process,
        a_filter_by_a_configured_attributes_file,
        a_folder_of_hooks,
        a_hook,
        a_diff_driver,
        a_pager,
        an_alias,
        a_checker_of_signatures,
        a_program_called_git,
    )
}


@pytest.fixture
def victim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Victim:
    victim = Victim(tmp_path)
    monkeypatch.chdir(victim.folder)
    monkeypatch.setenv("PATH", os.pathsep.join(["", ".", os.environ["PATH"]]))  # as many have it
    return victim


def scan(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[str], list[str]]:
    code = cli.main(["scan", "--no-cache", "--format", "concise", *arguments])
    out, err = capsys.readouterr()
    return code, [" ".join(line.split(" ")[:2]) for line in out.splitlines()], err.splitlines()


@pytest.mark.parametrize("name", HOSTILE)
def test_nothing_that_the_repository_names_is_run(
    victim: Victim, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    HOSTILE[name](victim)
    assert scan(capsys, ".", "--diff", "HEAD") == (1, ["hot.py:7:13: GS202"], [])
    assert introduced_since(victim.folder / "graphsafe.toml")("hot.py", 7) == "; introduced with this change"
    assert not victim.ran.exists()


def test_a_bare_repository_among_committed_files_is_no_repository(
    victim: Victim, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    victim.git("clone", "-q", "--bare", ".", "evil")
    victim.write(
        "evil/config",
        f'[core]\nbare = false\nworktree = .\nrepositoryformatversion = 0\nfsmonitor = "touch {victim.ran} #"\n',
    )
    victim.write("evil/hot.py", HOT)
    victim.commit()
    victim.write("evil/hot.py", MORE)
    assert scan(capsys, "evil", "--diff", "HEAD") == (1, ["evil/hot.py:7:13: GS202"], [])
    monkeypatch.chdir(victim.folder / "evil")
    assert scan(capsys, "hot.py", "--diff", "HEAD") == (1, ["hot.py:7:13: GS202"], [])
    assert not victim.ran.exists()


@pytest.mark.parametrize(
    "settings",
    [
        ("remote.origin.url=.", "remote.origin.uploadpack=touch RAN #"),
        ("remote.origin.url=ssh://host/path", "core.sshCommand=touch RAN #"),
        ("remote.origin.url=ext::sh -c 'touch RAN'", "protocol.ext.allow=always"),
        ("remote.origin.url=http://127.0.0.1:9/", "credential.helper=!touch RAN #", "http.proxy=http://127.0.0.1:9"),
    ],
    ids=["uploadpack", "ssh", "ext", "http"],
)
def test_what_a_partial_clone_lacks_is_not_fetched(
    victim: Victim, settings: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    victim.lose_blob()
    victim.configure(
        "core.repositoryFormatVersion=1",
        "extensions.partialClone=origin",
        "remote.origin.promisor=true",
        *(setting.replace("RAN", str(victim.ran)) for setting in settings),
    )
    code, out, err = scan(capsys, ".", "--diff", "HEAD")
    assert (code, out) == (2, [])
    assert err == ["graphsafe: --diff: this partial clone lacks files of HEAD; `git diff HEAD` fetches them"]
    assert not victim.ran.exists()


def test_a_pipe_in_place_of_a_file_of_git_is_not_waited_for(
    victim: Victim, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git, "PATIENCE", 0.5)
    (victim.folder / ".git" / "HEAD").unlink()
    os.mkfifo(victim.folder / ".git" / "HEAD")
    code, _, err = scan(capsys, ".", "--diff", "HEAD")
    assert code == 2 and len(err) == 1


def test_a_work_tree_elsewhere_changes_nothing(victim: Victim, capsys: pytest.CaptureFixture[str]) -> None:
    victim.configure("core.worktree=/")
    assert scan(capsys, ".", "--diff", "HEAD") == (1, ["hot.py:7:13: GS202"], [])


def test_trees_without_an_end_are_listed_up_to_a_limit(
    victim: Victim, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten trees, each of which holds the next one twenty times, list more files than any memory holds."""
    monkeypatch.setattr(git, "MAX_OUTPUT", 4_000_000)

    def stored(kind: str, data: bytes) -> str:
        content = f"{kind} {len(data)}\0".encode() + data
        name = hashlib.sha1(content).hexdigest()
        path = victim.folder / ".git" / "objects" / name[:2] / name[2:]
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(zlib.compress(content))
        return name

    inner, mode = stored("blob", b"x"), "100644"
    for _ in range(10):
        entries = (f"{mode} d{number:02}\0".encode() + bytes.fromhex(inner) for number in range(20))
        inner, mode = stored("tree", b"".join(entries)), "40000"
    who = "a <a@example.com> 1 +0000"
    commit = stored("commit", f"tree {inner}\nauthor {who}\ncommitter {who}\n\nx\n".encode())
    (victim.folder / ".git" / "HEAD").write_text(commit, encoding="ascii")
    code, out, err = scan(capsys, ".", "--diff", "HEAD")
    assert (code, out) == (2, [])
    assert err == ["graphsafe: --diff: git ls-tree: more than 4 MB of output"]


def test_a_stored_file_that_is_too_large_to_scan_is_not_compared(
    victim: Victim, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Zeros are a thousand times as small in the repository."""
    victim.write("hot.py", HOT)
    victim.write("gone.py", "\0" * 20_000_000)
    victim.write("shorter.py", MORE + "\0" * 20_000_000)
    victim.commit()
    (victim.folder / "gone.py").unlink()
    victim.write("shorter.py", MORE)
    victim.write("new.py", HOT)
    victim.git("add", "--intent-to-add", "new.py")
    monkeypatch.setattr(git, "MAX_OUTPUT", 10_000_000)
    assert scan(capsys, ".", "--diff", "HEAD") == (
        1,
        ["new.py:7:20: GS101", "shorter.py:7:13: GS202", "shorter.py:8:20: GS101"],
        [],
    )
