"""Files that cannot be read: each is reported in one line, and the rest of the work is done."""

from __future__ import annotations

import json
import os
import tracemalloc
from pathlib import Path

import pytest

from graphsafe import cli
from graphsafe.report.forms import FORMS
from graphsafe.scan import api
from graphsafe.scan.roots import candidate_files

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
    "not UTF-8": (b"import torch  # forward\nx = '\xff'\n", "bad.py:2:6:"),
    "a null byte": (b"import torch  # forward\n\0", "bad.py:"),
    "an unknown encoding": (b"# coding: klingon\nimport torch  # forward\n", "bad.py:1:"),
    "a null file": (b"\0" * 1000, "bad.py:"),
    "an encoding that is none": (b"# coding: undefined\nimport torch  # forward\n", "bad.py:1:"),
    "an encoding of names": (b"# coding: punycode\nimport torch  # forward\n", "bad.py:1:"),
    "an encoding of bytes": (b"# coding: zlib\nimport torch  # forward\n", "bad.py:1:"),
    "UTF-16": ("import torch  # forward\n".encode("utf-16"), "bad.py:1:"),
    "UTF-32": ("import torch  # forward\n".encode("utf-32"), "bad.py:1:"),
    "a number of many digits": (b"import torch  # forward\nx = " + b"9" * 6000 + b"\n", "bad.py:"),
}
NESTED = {
    "parentheses": "(" * 10_000 + "x" + ")" * 10_000,
    "open parentheses": "(" * 100_000,
    "lists": "[" * 5_000 + "x" + "]" * 5_000,
    "tables": "{1:" * 5_000 + "x" + "}" * 5_000,
    "calls in calls": "f(" * 9_000 + "x" + ")" * 9_000,
    "assignments": "(y:=" * 5_000 + "x" + ")" * 5_000,
    "sums": "x" + " + x" * 100_000,
    "attributes": "x" + ".a" * 100_000,
    "calls of calls": "x" + ".f()" * 50_000,
    "signs": "-" * 50_000 + "x",
    "negations": "not " * 50_000 + "x",
    "powers": "x" + " ** x" * 20_000,
    "lambdas": "lambda: " * 10_000 + "x",
    "conditions": "x if x else " * 20_000 + "x",
    "format fields": "f'" + "{x:" * 5_000 + "}" * 5_000 + "'",
    "patterns": "x\nmatch x:\n    case " + "[" * 60 + "a" + "]" * 60 + ": pass\n",
    "branches": "x\nif x: pass\n" + "elif x: pass\n" * 20_000,
}
NEWER = "type Alias[T] = tuple[T]\n"
"Syntax that Python before 3.12 leaves to libcst."


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


@pytest.mark.parametrize("newer", ["", NEWER], ids=["old", "new"])
@pytest.mark.parametrize("kind", NESTED)
def test_what_is_nested_without_end_ends_no_scan(
    project: Path, capsys: pytest.CaptureFixture[str], kind: str, newer: str
) -> None:
    (project / "bad.py").write_text(f"{newer}import torch  # forward\ny = {NESTED[kind]}\n", encoding="utf-8")
    code, out, err = scan(capsys, "bad.py", "hot.py")
    assert (code, err) == (1, [])
    assert [line for line in out if line.startswith(FOUND)], out


def test_a_file_is_parsed_as_deep_alone_as_in_its_folder(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "deep.py").write_text(f"{HOT}\n\nNUMBER = 1{' + 1' * 5000}\n", encoding="utf-8")
    for number in range(20):
        (project / f"other{number}.py").write_text("", encoding="utf-8")
    _, alone, _ = scan(capsys, "deep.py", "--no-cache")
    _, whole, _ = scan(capsys, ".", "--no-cache")
    assert alone == [line for line in whole if line.startswith("deep.py:")]
    assert [line.split(" ")[1] for line in alone] == ["GS101"]


@pytest.mark.parametrize(
    "line",
    [
        's = "ab" * 500_000_000',
        's = 500_000_000 * b"ab"',
        's = b"%999999999d" % 1',
        "s = 9\n" + "        s = s * s\n" * 60,
    ],
    ids=["a text", "bytes", "a width", "a number"],
)
def test_no_constant_is_worked_out_that_would_fill_the_memory(
    project: Path, capsys: pytest.CaptureFixture[str], line: str
) -> None:
    (project / "hot.py").write_text(HOT.replace("        return", f"        {line}\n        return"), encoding="utf-8")
    tracemalloc.start()
    try:
        code, _, err = scan(capsys, "hot.py")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (code, err) == (1, [])
    assert peak < 100_000_000


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


LONG = f"{'a' * 300}.py"


def test_a_name_that_is_too_long_is_a_bad_request(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = scan(capsys, LONG, "hot.py")
    assert code == 2
    assert len(err) == 1 and err[0].startswith(f"graphsafe: {LONG}: ")
    assert [line for line in out if line.startswith(FOUND)], out


@pytest.mark.parametrize("words", [["scan", "hot.py", "-o", f"{LONG}/out.json"], ["config", LONG]])
def test_so_is_a_path_that_cannot_be(project: Path, capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    assert cli.main(words) == 2
    err = capsys.readouterr().err.splitlines()
    assert len(err) == 1 and LONG in err[0], err


@pytest.mark.skipif(os.name == "nt", reason="the working directory cannot be removed there")
def test_a_working_directory_that_was_removed_is_a_bad_request(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = project / "gone"
    gone.mkdir()
    os.chdir(gone)
    gone.rmdir()
    try:
        assert scan(capsys) == (2, [], ["graphsafe: the working directory has been removed"])
    finally:
        os.chdir(project)


def test_an_empty_path_is_a_bad_request(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An unset variable in a script gives an empty path."""
    code, out, err = scan(capsys, "")
    assert (code, out, len(err)) == (2, [], 1)


@pytest.mark.skipif(os.name == "nt", reason="needs symbolic links")
def test_a_folder_that_contains_itself_is_read_once(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "itself").symlink_to(".")
    (project / "loop.py").symlink_to("loop.py")
    (project / "folder.py").mkdir()
    os.mkfifo(project / "fifo.py")
    code, out, err = scan(capsys, ".")
    assert (code, err) == (1, [])
    assert [line.split(" ")[0] for line in out] == ["hot.py:6:20:"]


@pytest.mark.child
def test_a_file_of_five_megabytes_is_read(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = "TABLE = [\n" + "    'a line of a generated table that is as long as this one',\n" * 80_000 + "]\n"
    (project / "big.py").write_text(table + HOT, encoding="utf-8")
    assert (project / "big.py").stat().st_size > 5_000_000
    code, out, err = scan(capsys, "big.py")
    assert (code, err) == (1, [])
    assert [line for line in out if line.startswith("big.py:80008:20: GS101")], out


def test_a_file_of_a_hundred_megabytes_is_named(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with open(project / "big.py", "wb") as file:
        file.truncate(100_000_000)
    code, out, err = scan(capsys, ".")
    assert (code, err) == (1, [])
    assert [line for line in out if line.startswith("big.py:1:1: GS900") and "larger than 16 MB" in line], out
    assert [line for line in out if line.startswith(FOUND)], out


@pytest.mark.skipif(os.name == "nt", reason="needs such names")
@pytest.mark.parametrize("form", sorted(set(FORMS) - {"trace"}))  # a scan has no step to draw
def test_a_name_may_hold_any_byte(project: Path, capsysbinary: pytest.CaptureFixture[bytes], form: str) -> None:
    os.rename(project / "hot.py", os.fsencode(project) + b"/h\xff\x1b[31m%0A,:\r\n.py")
    assert cli.main(["scan", ".", "--format", form]) == 1
    out, err = capsysbinary.readouterr()
    assert err == b""
    assert b"\x1b" not in out
    if form in ("concise", "github"):
        assert out.count(b"\n") == 1 + (form == "github")
    if form == "github":
        assert b"file=h??[31m%250A%2C%3A" in out


def test_a_file_that_is_not_called_python_is_read_as_python_and_said(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("notes.txt", "script", "stub.pyi"):
        (project / name).write_text("torch\n", encoding="utf-8")
    assert cli.main(["scan", "notes.txt", "script", "stub.pyi", "-q"]) == 0
    assert capsys.readouterr().err == "graphsafe: notes.txt: read as Python, although its name ends in .txt\n"


def test_a_file_in_another_encoding_is_told_to_be_saved_in_this_one(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "latin.py").write_bytes(b"import torch\n# caf\xe9\n")
    assert cli.main(["scan", "latin.py", "--format", "concise"]) == 1
    out = capsys.readouterr().out
    assert "latin.py:2:6: GS900" in out and "byte 0xe9 is not UTF-8: save it as UTF-8, or name its encoding" in out


@pytest.mark.skipif(os.name == "nt", reason="needs such names")
def test_a_name_that_holds_two_colons_is_not_read_and_said(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "hot.py").rename(project / "a::b.py")
    (project / "fine.py").write_text(HOT, encoding="utf-8")
    assert limits(capsys) == [("unread-file", "a::b.py")]
    assert cli.main(["scan", "a::b.py"]) == 2
    said = "graphsafe: a::b.py: not read, because `::` would end its path in a report\n"
    assert capsys.readouterr().err == said


@pytest.mark.skipif(os.name == "nt", reason="needs symbolic links")
def test_a_link_out_of_the_project_is_not_followed_and_said(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outside = project.parent / f"{project.name}-outside"
    outside.mkdir()
    (outside / "secret.py").write_text(HOT, encoding="utf-8")
    (project / "file.py").symlink_to(outside / "secret.py")
    (project / "folder").symlink_to(outside)
    (project / "inside.py").symlink_to("hot.py")
    assert limits(capsys) == [("outside-link", "file.py"), ("outside-link", "folder")]
    _, out, _ = scan(capsys, ".")
    assert [line.split(":")[0] for line in out] == ["hot.py", "inside.py"]
    # A file that the user names is read.
    assert scan(capsys, "file.py")[1][0].startswith("file.py:6:20: GS101")
    assert limits(capsys, "file.py") == [("outside-link", "folder")]


@pytest.mark.skipif(os.name == "nt", reason="needs a fifo")
@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("!\n[z-a]\n*.txt\n", "not a pattern: '!'"),
        ("a\\\n", "not a pattern: 'a\\\\'"),
        ("[a\n", "not a pattern: '[a'"),
        ("a//b\n", "not a pattern: 'a//b'"),
        ("[[:kind:]]\n", "not a pattern: '[[:kind:]]'"),
        ("fifo", "not followed: not a regular file"),
        ("device", "not followed: a link"),
        ("folder", "not followed: not a regular file"),
        ("large", "not followed: larger than 4 MB"),
    ],
)
def test_an_ignore_file_that_cannot_be_followed_is_said(
    project: Path, capsys: pytest.CaptureFixture[str], kind: str, why: str
) -> None:
    ignore = project / ".gitignore"
    if kind == "fifo":
        os.mkfifo(ignore)
    elif kind == "device":
        ignore.symlink_to("/dev/zero")
    elif kind == "folder":
        ignore.mkdir()
    elif kind == "large":
        ignore.write_text("# as long as this\n" * 300_000, encoding="utf-8")
    else:
        ignore.write_text(kind + "ignored.py\n", encoding="utf-8")
        (project / "ignored.py").write_text(HOT, encoding="utf-8")
    (project / ("a" * 200 + ".py")).write_text("", encoding="utf-8")
    code, out, err = scan(capsys, ".")
    assert (code, err) == (1, [])
    assert [line.split(" ")[0] for line in out] == ["hot.py:6:20:"]
    assert cli.main(["scan", ".", "--format", "json"]) == 1
    (first, *_) = json.loads(capsys.readouterr().out)["limits"]
    assert first["kind"] == "ignore-file" and first["what"].startswith(".gitignore") and first["why"].startswith(why)


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="needs a folder that this user may not read")
def test_a_folder_that_may_not_be_read_is_said(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "closed").mkdir(mode=0)
    assert limits(capsys) == [("unread-folder", "closed")]
    _, _, (told,) = scan(capsys, ".", "-q")
    assert told.startswith("graphsafe: closed: ")
    assert scan(capsys, "closed") == (2, [], ["graphsafe: closed: Permission denied"])


@pytest.mark.child
@pytest.mark.skipif(os.name == "nt", reason="paths are shorter there")
def test_folders_in_folders_without_end_are_walked(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    depth = 1200
    for _ in range(depth):
        os.mkdir("d")
        os.chdir("d")
    Path("deep.py").write_text(HOT, encoding="utf-8")
    try:
        os.chdir(project)
        code, out, err = scan(capsys, ".")
    finally:
        # shutil.rmtree, which pytest uses, recurses.
        for _ in range(depth):
            os.chdir("d")
        os.unlink("deep.py")
        for _ in range(depth):
            os.chdir("..")
            os.rmdir("d")
    assert (code, err) == (1, [])
    assert [line.rpartition("/")[2][:13] for line in out] == ["deep.py:6:20:", "hot.py:6:20: "]


def test_a_file_that_goes_away_while_it_is_scanned_is_named(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "gone.py").write_text(HOT, encoding="utf-8")

    def find_candidates(files, wanted, *rest):  # type: ignore[no-untyped-def]
        (project / "gone.py").unlink()
        return candidate_files.find_candidates(files, wanted, *rest)

    monkeypatch.setattr(api, "find_candidates", find_candidates)
    code, out, err = scan(capsys, ".")
    assert (code, err) == (1, [])
    assert [line.split(" ")[:2] for line in out] == [["gone.py:1:1:", "GS900"], ["hot.py:6:20:", "GS101"]]


def limits(capsys: pytest.CaptureFixture[str], *paths: str) -> list[tuple[str, str]]:
    assert cli.main(["scan", *(paths or (".",)), "--format", "json"]) == 1
    return [(limit["kind"], limit["what"]) for limit in json.loads(capsys.readouterr().out)["limits"]]
