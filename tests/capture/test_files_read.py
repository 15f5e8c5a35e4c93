"""Files of which each step asks, and numbers of the system that are changed for a step."""

from __future__ import annotations

import os
from pathlib import Path

from graphsafe.capture.child.lines.files_read import FilesSeen


def test_files_of_which_each_step_asks_are_seen(tmp_path: Path) -> None:
    files, path = FilesSeen(), tmp_path / "brake"
    for parents in (1, 1, 0):
        with files.step():
            os.path.exists(path)
            for _ in range(parents):
                os.stat(path.parent)
            os.stat(os.__file__)
    assert files.asked == {str(path)}
    assert [*files.variations()] == []


def test_numbers_in_files_of_the_system_are_multiplied() -> None:
    files = FilesSeen()
    with files.step(), open("/proc/self/statm", encoding="ascii") as file:
        file.read()
    ((name, scales),) = files.variations()
    assert name == "/proc/self/statm" and len(scales) == 3
    with scales[0](), open(name, encoding="ascii") as file, open(name, "rb") as raw:
        assert set(file.read().split()) == {"0"} == {part.decode() for part in raw.read().split()}
    files.leave_out(name)
    assert files.shown() == ()


def test_files_that_a_compiler_reads_do_not_count(tmp_path: Path) -> None:
    path = tmp_path / "kernel.json"
    path.write_text("{}")
    compiler = {"path": path}
    exec(
        compile("def load():\n    return path.read_text()", "site-packages/torch/_inductor/cache.py", "exec"), compiler
    )
    files = FilesSeen()
    with files.step():
        compiler["load"]()
    assert files.read == set()
    with files.step():
        path.read_text()
    assert files.read == {str(path)}
