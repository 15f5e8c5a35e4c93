"""Syntax newer than the running Python keeps its lines and columns."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from graphsafe.config import Config
from graphsafe.scan.api import scan_paths
from graphsafe.scan.sources import newer
from graphsafe.scan.sources.newer import rewrite
from graphsafe.scan.sources.source import Source, Unreadable, parse_source

NEWER = """\
type Batch = dict[
    str, int
]


class Step[T: int]:
    def forward[
        U
    ](self, x: T, y: U) -> None:
        try:
            print(f"{x["a"]} and {y!r:>{10}}" "tail", "ä", x)
        except* (ValueError, TypeError):
            pass
        name = f"{
            x.item()
        }"
"""


@pytest.fixture(autouse=True)
def old_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Python that knows no f-string with the outer quotes inside."""
    monkeypatch.setattr(newer, "_is_old", lambda string: False)


def test_old_python_reads_what_is_left() -> None:
    text = rewrite(NEWER)
    assert text is not None
    tree = ast.parse(text, feature_version=(3, 10))
    assert [len(line.encode()) for line in text.split("\n")] == [len(line.encode()) for line in NEWER.split("\n")]
    (read,) = (node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr == "item")
    assert (read.lineno, read.col_offset) == (15, 12)
    names = {node.name for node in ast.walk(tree) if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    assert names == {"Step", "forward"}


def test_values_stay_where_they_are() -> None:
    text = rewrite(NEWER)
    assert text is not None
    line = text.split("\n")[10]
    assert line.index('x["a"]') == NEWER.split("\n")[10].index('x["a"]')
    assert line.endswith('"ä", x)')


@pytest.mark.parametrize("text", ["x = 1\n", "def (:\n", ""])
def test_nothing_to_rewrite(text: str) -> None:
    assert rewrite(text) is None


def test_plain_fstrings_stay_if_python_reads_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert rewrite('type A = int\nprint(f"{x}")\n') == 'pass        \nprint(f"{x}")\n'


def test_a_file_with_newer_syntax_is_scanned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    (tmp_path / "step.py").write_text(
        "import torch\n\ntype Batch = dict[str, torch.Tensor]\n\n\n"
        "class Step[T](torch.nn.Module):\n"
        "    def forward(self, x: torch.Tensor):\n"
        "        names = {'a': 1}\n"
        "        print(f'{names['a']}')\n"
        "        return x * x.sum().item()\n"
    )
    (finding,) = scan_paths([tmp_path], Config(root=tmp_path)).findings
    assert (finding.code, finding.location.line, finding.location.column) == ("GS101", 10, 20)


def test_an_f_string_with_its_own_quotes_inside_stays_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(newer, "_is_old", lambda string: b'"a"' not in string)
    assert rewrite('name = f"{d["a"]} {x.sum()}"\n') == "name = f\"{d['a']} {x.sum()}\"\n"
    # Line breaks inside are new as well.
    assert rewrite('name = f"{d["a"]\n}"\n') == 'name = (  d["a"]\n) \n'


@pytest.mark.parametrize(
    ("mistake", "line"),
    [
        ("def f(x):\n    return x.item(\n", 5),
        ("def f(x):\n    return x.item(\n\ndef g(x):\n    return x\n", 5),
        ("@torch.no_grad()\ndef f(x):\n    return x +\n", 6),
    ],
)
def test_the_place_of_a_mistake_is_not_that_of_newer_syntax(mistake: str, line: int) -> None:
    with pytest.raises(Unreadable) as raised:
        parse_source(Source(Path("step.py"), f"import torch\n\ntype Batch = dict[str, int]\n{mistake}"))
    assert raised.value.line == line
