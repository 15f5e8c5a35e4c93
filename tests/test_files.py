"""Files are written completely or not at all, and a device or a pipe is never replaced by a file."""

from __future__ import annotations

import os
import random
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from graphsafe.files import write_atomically
from graphsafe.ignorefile import read_patterns


def test_a_link_stays_one_and_what_it_leads_to_is_written(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    link = tmp_path / "report.json"
    link.symlink_to(tmp_path / "there" / "report.json")
    for text in ("first", "second"):
        write_atomically(link, text)
        assert link.is_symlink() and (tmp_path / "there" / "report.json").read_text() == text
    assert [path.name for path in (tmp_path / "there").iterdir()] == ["report.json"]


@pytest.mark.skipif(sys.platform == "win32", reason="needs named pipes")
def test_a_pipe_is_written_into(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()), daemon=True)
    reader.start()
    write_atomically(pipe, "report")
    reader.join(10)
    assert read == ["report"] and stat.S_ISFIFO(pipe.stat().st_mode)


@pytest.mark.skipif(not hasattr(os, "mknod") or os.geteuid() != 0, reason="only root could put a file in its place")
def test_a_device_stays_one(tmp_path: Path) -> None:
    null = tmp_path / "null"
    try:
        os.mknod(null, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        null.write_text("")
    except OSError:
        pytest.skip("devices cannot be made here")
    write_atomically(null, "report")
    assert stat.S_ISCHR(null.stat().st_mode)


def test_a_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError):
        write_atomically(tmp_path, "report")


def test_each_pattern_of_an_ignore_file_is_judged_by_itself() -> None:
    lines = [
        "# a comment * * * * * *",
        "",
        "build/",
        "!",
        "**/a/**/b/**/*.txt",
        "[z-a]",
        "x***y",
        "*a*b*c*d*e",
        "!kept.txt",
    ]
    spec, problems = read_patterns(lines)
    assert [line for line, _ in problems] == [4, 6]
    assert {name: spec.match(name) for name in ("build/x", "a/b/c.txt", "xzzy", "kept.txt", "1a2b3c4d5e", "other")} == {
        "build/x": True,
        "a/b/c.txt": True,
        "xzzy": True,
        "kept.txt": False,
        "1a2b3c4d5e": True,
        "other": None,
    }


PIECES = [
    *"a b ab c * ** ? [ab] [!a] [^b] a* *b a*b a**b **a \\a \\* []a] [[:alpha:]] [a-b]* *.py".split(),
    "a ",
    "a\\ ",
]
NAMES = ["a", "b", "ab", "aab", "x.py", "ba", "*", "c", "]", "a b", "aXb", "a "]


@pytest.mark.child
def test_patterns_match_what_git_ignores(tmp_path: Path) -> None:
    git = ["git", "-C", str(tmp_path), "-c", "core.excludesFile="]
    subprocess.run([*git, "init", "-q"], check=True)
    draw = random.Random(3)
    for _ in range(60):
        folder = Path(tempfile.mkdtemp(dir=tmp_path))
        lines = [drawn_pattern(draw) for _ in range(draw.randint(1, 4))]
        (folder / ".gitignore").write_text("\n".join(lines) + "\n")
        for _ in range(12):
            folder.joinpath(*draw.choices(NAMES, k=draw.randint(1, 5))).mkdir(parents=True, exist_ok=True)
        files = {f"{path}/z.py" for path in folder.rglob("*") if path.is_dir()}
        paths = sorted({*files, *(str(path) for path in folder.rglob("*") if path.name != ".gitignore")})
        asked = subprocess.run(
            [*git, "check-ignore", "--no-index", "-z", "--stdin"], input="\0".join(paths).encode(), capture_output=True
        )
        ignored = set(asked.stdout.decode().split("\0")[:-1])
        spec, _ = read_patterns(lines)
        ours = {path for path in paths if spec.match(path[len(str(folder)) + 1 :], os.path.isdir(path))}
        assert ours == ignored, lines
        shutil.rmtree(folder)


def drawn_pattern(draw: random.Random) -> str:
    names = ("".join(draw.sample(PIECES, draw.choice([1, 1, 1, 2]))) for _ in range(draw.randint(1, 4)))
    begin, end = draw.choice(["", "", "/", "!", "!/"]), draw.choice(["", "", "/", "  "])
    return f"{begin}{'/'.join(names)}{end}"
