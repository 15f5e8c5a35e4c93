"""A step is told something else about files than is true, and must change none of them meanwhile."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from graphsafe.capture.child.lines.files_read import FilesSeen


def _seen(files: FilesSeen, path: Path) -> None:
    for _ in range(2):
        with files.step():
            os.path.exists(path)
            os.stat(path.parent)
            os.stat(os.__file__)


def test_files_of_which_each_step_asks_are_told_otherwise(tmp_path: Path) -> None:
    files, path = FilesSeen(), tmp_path / "brake"
    _seen(files, path)
    with files.step():
        os.path.exists(path)
    assert files.asked == {str(path)}
    ((name, (missing, younger)),) = files.variations()
    assert name == str(path)
    with missing():
        assert path.exists()
    path.write_text("on", encoding="ascii")
    with missing():
        assert not path.exists() and os.path.exists(tmp_path)
    before = path.stat()
    with younger():
        assert path.stat().st_mtime > before.st_mtime + 80_000 and path.stat()[8] > before[8]
        assert path.is_file() and path.stat().st_size == before.st_size + 1
    files.leave_out(name)
    assert files.shown() == ()


def test_a_file_that_seems_to_be_missing_is_not_written_anew(tmp_path: Path) -> None:
    files, path = FilesSeen(), tmp_path / "kept"
    path.write_text("kept", encoding="ascii")
    with files.step():
        os.path.exists(path)
    ((_, (missing, _)),) = files.variations()
    with missing(), pytest.raises(PermissionError):
        if not path.exists():
            path.write_text("lost", encoding="ascii")
    with missing(), pytest.raises(PermissionError):
        path.unlink()
    assert path.read_text(encoding="ascii") == "kept"


def test_numbers_in_files_of_the_system_are_multiplied() -> None:
    files = FilesSeen()
    with files.step(), open("/proc/self/statm", encoding="ascii") as file:
        file.read()
    ((name, scales),) = files.variations()
    assert name == "/proc/self/statm" and len(scales) == 3
    with scales[0](), open(name, encoding="ascii") as file, open(name, "rb") as raw:
        assert set(file.read().split()) == {"0"} == {part.decode() for part in raw.read().split()}
