"""The lines of files, which an editor's server and `--watch` read again after an edit."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from graphsafe.capture.shared.classify import function_at, statement_span
from graphsafe.report.source import file_lines, kept_by_lines


def test_lines_are_read_again_after_an_edit(tmp_path: Path) -> None:
    file = tmp_path / "steps.py"
    file.write_text("one = 1\n", encoding="utf-8")
    assert file_lines(str(file)) == ("one = 1",)
    file.write_text("one = 1\ntwo = 2\n", encoding="utf-8")
    assert file_lines(str(file)) == ("one = 1", "two = 2")
    file.unlink()
    assert file_lines(str(file)) is None


def test_a_relative_path_names_another_file_in_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "steps.py").write_text(f"def {name}(): ...\n", encoding="utf-8")
        monkeypatch.chdir(tmp_path / name)
        function = function_at("steps.py", 1)
        assert function is not None and function.name == name
    monkeypatch.chdir(tmp_path)
    assert function_at("steps.py", 1) is None


def test_statements_that_share_a_line_are_quoted_together(tmp_path: Path) -> None:
    """A line alone does not say which of them ran."""
    file = tmp_path / "steps.py"
    file.write_text("a = 1; b = (\n    2,\n)\nfor a in b: print(a); print(b)\nprint(\n    a, b)\n", encoding="utf-8")
    assert statement_span(str(file), 1) == (1, 0, 3, 1)
    assert statement_span(str(file), 4) == (4, 0, 4, 30)
    assert statement_span(str(file), 6) == (6, 4, 6, 5), "a part of one statement stays a part"


def test_a_file_is_parsed_once_until_it_changes(tmp_path: Path) -> None:
    made: list[Sequence[str]] = []
    count = kept_by_lines(lambda lines: made.append(lines) or len(lines))  # type: ignore[func-returns-value]
    file = str(tmp_path / "steps.py")
    Path(file).write_text("a\nb\n", encoding="utf-8")
    assert (count(file), count(file), len(made)) == (2, 2, 1)
    Path(file).write_text("a\n", encoding="utf-8")
    os.utime(file, ns=(1, 1))
    assert (count(file), len(made)) == (1, 2)
