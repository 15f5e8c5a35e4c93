"""Files that nobody can read: each is said in one line, and the rest of the work is done."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from graphsafe import cli

HOT = """\
from torch import nn


class Step(nn.Module):
    def forward(self, x):
        return x * x.sum().item()
"""
FOUND = "hot.py:6:20: GS101"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text("[tool.graphsafe]\n", encoding="utf-8")
    (tmp_path / "hot.py").write_text(HOT, encoding="utf-8")
    return tmp_path


def scan(capsys: pytest.CaptureFixture[str], *paths: str) -> tuple[int, list[str], list[str]]:
    code = cli.main(["scan", *paths, "--format", "concise"])
    out, err = capsys.readouterr()
    return code, out.splitlines(), err.splitlines()


UNREADABLE = {
    "a syntax error": (b"def f(:\n    pass\n# forward, torch\n", "bad.py:1:"),
    "not UTF-8": (b"import torch  # forward\nx = '\xff'\n", "bad.py:2:1:"),
    "a null byte": (b"import torch  # forward\n\0", "bad.py:"),
    "an unknown encoding": (b"# coding: klingon\nimport torch  # forward\n", "bad.py:1:"),
    "nested too deeply": (b"import torch  # forward\nx = " + b"(" * 1000 + b")" * 1000 + b"\n", "bad.py:"),
}


@pytest.mark.parametrize("kind", UNREADABLE)
def test_a_file_that_cannot_be_parsed_is_a_finding(
    project: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    content, place = UNREADABLE[kind]
    (project / "bad.py").write_bytes(content)
    code, out, err = scan(capsys, "bad.py", "hot.py")
    assert (code, err) == (1, [])
    assert [line for line in out if line.startswith(place) and "GS900" in line], out
    assert [line for line in out if line.startswith(FOUND)], out


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="needs a file that this user may not read")
def test_a_file_that_may_not_be_read_is_a_finding(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "bad.py").write_text(HOT, encoding="utf-8")
    (project / "bad.py").chmod(0)
    code, out, _ = scan(capsys, "bad.py", "hot.py")
    assert code == 1
    assert [line for line in out if line.startswith("bad.py:") and "GS900" in line], out
    assert [line for line in out if line.startswith(FOUND)], out


@pytest.mark.skipif(os.name == "nt", reason="needs symbolic links and a fifo")
@pytest.mark.parametrize("kind", ["loop", "broken link", "fifo"])
def test_what_is_no_file_is_a_bad_request(project: Path, capsys: pytest.CaptureFixture[str], kind: str) -> None:
    bad = project / "bad.py"
    if kind == "fifo":
        os.mkfifo(bad)
    else:
        bad.symlink_to("bad.py" if kind == "loop" else "absent.py")
    code, out, err = scan(capsys, "bad.py", "hot.py")
    assert code == 2
    assert err == ["graphsafe: bad.py: no such file or folder"]
    assert [line for line in out if line.startswith(FOUND)], out


@pytest.mark.skipif(os.name == "nt", reason="needs symbolic links")
def test_a_folder_that_contains_itself_is_read_once(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "itself").symlink_to(".")
    (project / "loop.py").symlink_to("loop.py")
    (project / "folder.py").mkdir()
    os.mkfifo(project / "fifo.py")
    code, out, err = scan(capsys, ".")
    assert (code, err) == (1, [])
    assert [line.split(" ")[0] for line in out] == ["hot.py:6:20:"]


def test_a_file_of_five_megabytes_is_read(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = "TABLE = [\n" + "    'a line of a generated table that is as long as this one',\n" * 80_000 + "]\n"
    (project / "big.py").write_text(table + HOT, encoding="utf-8")
    assert (project / "big.py").stat().st_size > 5_000_000
    code, out, err = scan(capsys, "big.py")
    assert (code, err) == (1, [])
    assert [line for line in out if line.startswith("big.py:80008:20: GS101")], out
