"""Graphs whose tensors are variables of a function, or of the function around it."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from graphsafe.config import Config
from graphsafe.scan.api import scan_paths

CAPTURE = """
import torch

def run(model, stream, device, batches, given):
    x = torch.zeros(8, 4, device=device)
    model(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        y = model(x)
    kept, last = {}, None
"""


def found(tmp_path: Path, body: str) -> set[tuple[str, str]]:
    """Return the code and the line of each finding about stale tensors in the lines after the capture."""
    text = CAPTURE + textwrap.indent(textwrap.dedent(body), " " * 4)
    (tmp_path / "run.py").write_text(text, encoding="utf-8")
    report = scan_paths([tmp_path], Config(root=tmp_path), confidence="possible")
    lines = text.splitlines()
    codes = ("GS706", "GS707", "GS708")
    return {(one.code, lines[one.location.line - 1].strip()) for one in report.findings if one.code in codes}


@pytest.mark.parametrize(
    ("after", "is_kept"),
    [
        ("kept.update({i: y})", True),
        ("kept.update({i: y.view(-1)})", True),
        ("kept.update({i: y.clone()})", False),
        ("kept.update({'last': y})", False),
        ("kept.update({**given, i: 1})", False),
        ("kept.update(last=y)", False),
        ("given.append(y)", True),
        ("given.append(y.clone())", False),
    ],
)
def test_outputs_put_into_containers(tmp_path: Path, after: str, is_kept: bool) -> None:
    body = f"for i, b in enumerate(batches):\n    x.copy_(b)\n    graph.replay()\n    {after}\n"
    assert found(tmp_path, body) == ({("GS706", after)} if is_kept else set())


@pytest.mark.parametrize(
    ("before", "after", "is_kept"),
    [
        ("pass", "if last is not None: given(y - last)", True),
        ("if last is not None: given(last)", "pass", False),  # the value is used before the next replay
        ("pass", "last = given", False),
    ],
)
def test_an_output_beside_that_of_the_next_replay(tmp_path: Path, before: str, after: str, is_kept: bool) -> None:
    body = f"for b in batches:\n    {before}\n    x.copy_(b)\n    graph.replay()\n    {after}\n    last = y\n"
    assert found(tmp_path, body) == ({("GS706", "last = y")} if is_kept else set())


def test_a_copy_of_an_output_beside_that_of_the_next_replay(tmp_path: Path) -> None:
    body = "for b in batches:\n    x.copy_(b)\n    graph.replay()\n    given(y, last)\n    last = y.clone()\n"
    assert found(tmp_path, body) == set()


@pytest.mark.parametrize(
    ("other", "is_stale"),
    [
        ("for b in given:\n    x.copy_(b)\n    graph.replay()\n", True),
        ("x.zero_()\n", False),
        ("for b in given:\n    x.copy_(b)\n", False),
    ],
)
def test_another_line_fills_the_whole_input(tmp_path: Path, other: str, is_stale: bool) -> None:
    line = "x[: b.shape[0]] = b"
    body = f"{other}for b in batches:\n    {line}\n    graph.replay()\n    given(y.sum())\n"
    assert found(tmp_path, body) == ({("GS708", line)} if is_stale else set())


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("x[: b.shape[0]].copy_(b); graph.replay(); return y.clone()", {("GS708", "x[: b.shape[0]].copy_(b)")}),
        ("x[: b.shape[0]].copy_(b); x[b.shape[0] :].zero_(); graph.replay(); return y.clone()", set()),
        ("nonlocal x; x = b; graph.replay(); return y.clone()", {("GS707", "x = b")}),
        ("x = b; graph.replay(); return x", set()),  # a variable of the inner function
        ("x.copy_(b); graph.replay(); kept[b] = y", {("GS706", "kept[b] = y")}),
        ("kept = {}; x.copy_(b); graph.replay(); kept[b] = y; given(kept)", set()),
        ("x.copy_(b); graph.replay(); kept[b] = y.clone()", set()),
    ],
)
def test_a_function_that_replays_the_graph_of_the_function_around_it(
    tmp_path: Path, lines: str, expected: set[tuple[str, str]]
) -> None:
    inner = textwrap.indent(lines.replace("; ", "\n"), " " * 4)
    assert found(tmp_path, f"def step(b):\n{inner}\nreturn step\n") == expected


CALLERS_LIST = """
import torch

class Runner:
    def __init__(self, model, stream, device):
        x = torch.zeros(8, 4, device=device)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            y = model(x)
        self.graphs = {3: (graph, x, y)}

    def run(self, b, kept):
        graph, x, y = self.graphs[3]
        x.copy_(b)
        graph.replay()
        kept.append(y)
"""


def test_a_list_of_the_caller(tmp_path: Path) -> None:
    (tmp_path / "run.py").write_text(CALLERS_LIST, encoding="utf-8")
    report = scan_paths([tmp_path], Config(root=tmp_path), confidence="possible")
    assert [one.confidence for one in report.findings if one.code == "GS706"] == ["possible"]
