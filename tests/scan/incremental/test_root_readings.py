"""After an edit only the roots are read again that rest on it, whatever kind of edit it is."""

from __future__ import annotations

import ast
import dataclasses
import json
import re
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

from graphsafe.config import Config
from graphsafe.scan import api
from graphsafe.scan.domain.events import Event
from graphsafe.scan.domain.record import Place
from graphsafe.scan.domain.state_log import Write
from graphsafe.scan.domain.summary import Failure, Item
from graphsafe.scan.domain.values import UNSET, Dict, Instance, Number, Sequence, Tensor, Union, Unknown, Value
from graphsafe.scan.driver import Driver, Step
from graphsafe.scan.incremental.cache import FOLDER, _sealed
from graphsafe.scan.incremental.encoding import Unkept, absolute, decoded, encoded, relative, strings_table
from graphsafe.scan.incremental.rows import PARTS
from graphsafe.scan.sources.source import DIGEST_LENGTH

from ..editing import Again, edit, text

ROOT = """\
import torch
from torch import nn

from common import Base, Options, shared
from {name}_helper import {name}_scaled


class {title}(Base):
    def __init__(self, options: Options):
        super().__init__()
        self.options = options
        self.count = 0

    def forward(self, x: torch.Tensor):
        self.count += 1
        return shared({name}_scaled(x, self.options.limit)) * self.count


def build_{name}():
    return {title}(Options(limit=torch.ones(1)))
"""
HELPER = """\
LIMIT = 3


def {name}_scaled(x, limit):
    return x * x.sum().item() * LIMIT * limit


def {name}_unused(x):
    return x
"""
COMMON = """\
import torch
from dataclasses import dataclass
from torch import nn


@dataclass
class Options:
    limit: torch.Tensor | None = None


class Base(nn.Module):
    pass


def shared(x):
    return x + 1
"""
NAMES = ("first", "second", "third", "fourth", "fifth")
FILES = {
    "common.py": COMMON,
    **{f"{name}_model.py": ROOT.format(name=name, title=name.title()) for name in NAMES},
    **{f"{name}_helper.py": HELPER.format(name=name) for name in NAMES},
}


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The roots that are read in scans with the cache from now on, by the names of their classes."""
    found: set[str] = set()
    original = Driver._take

    def noted(self: Driver, step: Step) -> Value:
        if self._readings is not None:
            found.add(step.ref.partition("::")[2].removesuffix(".forward"))
        return original(self, step)

    monkeypatch.setattr(Driver, "_take", noted)
    return found


@pytest.mark.parametrize(
    ("name", "old", "new", "expected"),
    [
        ("second_helper.py", ".item() *", ".tolist() *", {"Second"}),
        ("second_helper.py", "LIMIT = 3", "LIMIT = 4", {"Second"}),
        ("second_helper.py", "(x, limit)", "(x, limit, *more)", {"Second"}),
        ("second_model.py", "    def forward", "    def other(self):\n        return 1\n\n    def forward", {"Second"}),
        ("second_model.py", "class Second(Base):", "class Second(Base):\n    count = 0\n", {"Second"}),
        ("second_model.py", "from second_helper", "from third_helper", {"Second"}),
        ("second_model.py", "(Base)", "(nn.Module)", {"Second"}),
        ("common.py", "    limit: torch.Tensor | None = None", "    limit: int = 1", {name.title() for name in NAMES}),
    ],
)
def test_what_does_not_rest_on_an_edit_is_not_read(
    root: Path, again: Again, read: set[str], name: str, old: str, new: str, expected: set[str]
) -> None:
    if "third" in new:
        edit(root, name, "second_scaled(x,", "third_scaled(x,")
        edit(root, name, "import second_scaled", "import third_scaled")
    edit(root, name, old, new)
    read.clear()
    again()
    assert read == expected


def test_files_that_come_and_go(root: Path, again: Again, read: set[str]) -> None:
    read.clear()
    (root / "more.py").write_text("import torch\n\n\ndef more(x: torch.Tensor):\n    return x.item()\n")
    again()
    assert not read
    (root / "sub.py").write_text(
        "from first_model import First\n\n\nclass Sub(First):\n    def forward(self, x):\n        x.cpu()\n"
    )
    again()
    assert read == {"Sub"}
    (root / "sub.py").unlink()
    (root / "fifth_helper.py").unlink()
    read.clear()
    again()
    assert read == {"Fifth"}


def test_a_module_that_was_missing_is_found(root: Path, again: Again, read: set[str]) -> None:
    (root / "first_helper.py").rename(root / "later.py")
    again()
    read.clear()
    # As it was before there would be nothing to scan: that report is known.
    (root / "first_helper.py").write_text(HELPER.format(name="first").replace("LIMIT = 3", "LIMIT = 5"))
    again()
    assert read == {"First"}


def test_a_package_that_comes_changes_the_names_of_its_files(root: Path, again: Again) -> None:
    (root / "processors").mkdir()
    (root / "processors" / "sixth_model.py").write_text(
        ROOT.format(name="sixth", title="Sixth").replace("from sixth_helper", "from .sixth_helper")
    )
    (root / "processors" / "sixth_helper.py").write_text(HELPER.format(name="sixth"))
    before, _ = again()
    (root / "processors" / "__init__.py").write_text("")
    report, _ = again()
    # A package of that name makes the inputs of steps.
    assert {finding.location.path for finding in before.findings} > {f.location.path for f in report.findings}
    (root / "processors" / "__init__.py").unlink()
    assert text(again()[0]) == text(before)


def test_what_calls_put_into_fields_counts_in_the_second_round(root: Path, again: Again, read: set[str]) -> None:
    edit(root, "first_model.py", "limit=torch.ones(1)", "limit=torch.ones(1, device='cpu')")
    read.clear()
    again()
    edit(root, "first_model.py", "        self.count += 1", "        self.count += 1\n        Options(limit=x.cpu())")
    again()
    assert read == {name.title() for name in NAMES}


def test_lines_are_those_of_today(root: Path, again: Again, read: set[str]) -> None:
    """Also of what stands in a file of which something else was edited."""
    (root / "second_helper.py").write_text("# Above.\n\n" + HELPER.format(name="second"))
    edit(root, "first_helper.py", ".item()", ".tolist()")
    read.clear()
    report, _ = again()
    assert read == {"First"}
    moved = next(finding for finding in report.findings if finding.location.path.endswith("second_helper.py"))
    assert ".item()" in (root / "second_helper.py").read_text().split("\n")[moved.location.line - 1]


def test_several_processes_leave_what_one_takes_up(root: Path, read: set[str]) -> None:
    def scan(jobs: int, cache: bool) -> str:
        folder = root / FOLDER if cache else None
        return text(api.scan_paths([root], Config(root=root), cache=folder, jobs=jobs))

    scan(2, cache=True)
    for number in range(4):
        edit(root, "second_helper.py", f"LIMIT = {number + 3}", f"LIMIT = {number + 4}")
        read.clear()
        found = scan(2, cache=True)
        assert read == {"Second"}
        assert found == scan(1, cache=False)


def rows(root: Path) -> Iterator[tuple[sqlite3.Connection, dict[str, tuple[str, str]]]]:
    """Key and text of each part."""
    (kept,) = (root / FOLDER).glob("*.db")
    with sqlite3.connect(kept) as connection:
        connection.text_factory = bytes
        found = connection.execute("select key, data from readings").fetchall()
        parts = [(key.decode(), data.decode()[DIGEST_LENGTH:]) for key, data in found]
        yield connection, {key.partition(" ")[2]: (key, text_of_part) for key, text_of_part in parts}


def out_of_range(data: Any) -> Any:
    if isinstance(data, list):
        return [out_of_range(part) for part in data]
    return data + 10**6 if type(data) is int else data


def with_other_numbers(part: str) -> str:
    """What is no list of numbers stays as it is: an item with other lines is an item, too."""
    return "\n".join(
        line if line.startswith('["') else json.dumps(out_of_range(json.loads(line))) for line in part.split("\n")
    )


HOSTILE: tuple[Callable[[str], str], ...] = (
    lambda part: "[",
    lambda part: "[" * 100_000,
    lambda part: "null",
    lambda part: "{}",
    lambda part: "[[[[1]]]]",
    with_other_numbers,
    lambda part: part[: len(part) // 2],
    lambda part: "\n".join(part.split("\n")[:-3]),
    lambda part: re.sub(r"-\d+", "-400000", part),
)


@pytest.mark.parametrize("change", HOSTILE)
def test_rows_that_make_no_sense_are_not_used(root: Path, again: Again, change: Callable[[str], str]) -> None:
    """Each table by itself, under a checksum that is right."""
    for number, part in enumerate(PARTS):
        edit(root, "second_helper.py", f"LIMIT = {number + 3}", f"LIMIT = {number + 4}")
        for connection, found in rows(root):
            assert found.keys() == {*PARTS}
            key, before = found[part]
            connection.execute("update readings set data = ? where key = ?", (_sealed(key, change(before)), key))
        again()


# the form


@pytest.mark.parametrize(
    "value",
    [
        Tensor(name="x", step=True, dtype="int"),
        Union((Number(3), Number("a text"), Unknown(step=True), Number(UNSET))),
        Dict((("key", Instance("a.py::A")), (2, Tensor())), Number(b"\xff")),
        Sequence("list", (Number(1.5), Number(2j), Number(...)), Number()),
        Event("HostRead", "method", (1, 0, 1, 4), words={"expr": "x.item()", "value": "ö\ud800"}),
        frozenset((3, 1)),
    ],
)
def test_values_are_the_same_when_they_are_read_back(value: object) -> None:
    strings = strings_table()
    written = encoded(value, strings)
    back = decoded(written, strings_table(strings.rows))
    assert back == value and repr(back) == repr(value)


def test_text_that_names_a_line_is_not_kept() -> None:
    with pytest.raises(Unkept):
        encoded(Failure("internal-error", "a.py::f", "on line 12"), strings_table())


def test_items_move_with_their_function() -> None:
    place = Place("a.py", "f", (12, 4, 13, 8), "HostRead", "method")
    placed = place, Event("HostRead", "method", place.span)
    kept = relative(placed, lambda ref: {"a.py::f": 10}[ref])
    assert kept[0].span == kept[1].span == (2, 4, 3, 8)
    assert absolute(kept, lambda ref: 20)[0].span == (22, 4, 23, 8)


def test_whatever_has_a_line_is_moved() -> None:
    """A new kind of item that holds a line under another name would keep that of the last scan."""
    for kind in (*get_args(Item), Place, Write):
        numbers = [field for field in dataclasses.fields(kind) if re.search(r"\bint\b|Span|Place\b", str(field.type))]
        assert {field.name for field in numbers} <= {"line", "span"}, kind


KNOWN = {
    # Asked for together with the order of bases, from which they follow.
    "_modules",
    "_keys",
    "_writing",
    # What is at work now, and what the first round has shown, whose use is noted.
    "_under_construction",
    "constructions",
    "given",
    # What follows from a value alone.
    "marked",
}


def test_no_memo_hides_what_an_answer_used() -> None:
    """An answer about the project that is kept must be a question, or be made by `Uses.memo`, or its use is noted."""
    scan = Path(api.__file__).parent
    for path in sorted(file for folder in ("interpreter", "models") for file in (scan / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Attribute) and node.value is not None:
                is_table = isinstance(node.value, ast.Dict) and not ast.unparse(node.annotation).startswith("Memo[")
                assert not is_table or node.target.attr in KNOWN, f"{path.name}:{node.lineno}"
            elif isinstance(node, ast.FunctionDef) and any("cache" in ast.unparse(d) for d in node.decorator_list):
                given = {argument.arg for argument in node.args.args}
                assert not given & {"engine", "frame", "project", "self"}, f"{path.name}:{node.lineno}"
