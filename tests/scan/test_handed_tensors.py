"""Tensors that are handed to a helper which captures them, and graphs whose tensors stand in namespaces and tables."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from graphsafe.config import Config
from graphsafe.scan.api import scan_paths

HELPER = """\
import torch


def record(layer, inputs, line):
    def once():
        return layer(*inputs)

    once()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=line):
        result = once()
    return graph, result


class Tape:
    def __init__(self, layer, source, line):
        layer(source)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=line):
            self.result = layer(source)

    def replay(self):
        self.graph.replay()
        return self.result.clone()
"""

FUNCTION = """\
import torch

from helper import record


def relax(layer, start, rounds, line):
    field = start.clone()
    wall = torch.zeros_like(start)
    graph, result = record(layer, (field, wall), line)
    for _ in range(rounds):
        graph.replay()
        {line}  # mark
    return field.clone()
"""

METHOD = """\
from helper import Tape


class Meter:
    def __init__(self, layer, frame, line):
        self.frame = frame.clone()
        self.tape = Tape(layer, self.frame, line)

    def read(self, frame):
        {line}  # mark
        return self.tape.replay()
"""


def marked(tmp_path: Path, files: dict[str, str]) -> list[str]:
    """Scan files, and return the codes of the findings on marked lines."""
    for name, text in files.items():
        (tmp_path / name).write_text(textwrap.dedent(text), encoding="utf-8")
    found = scan_paths([tmp_path], Config(root=tmp_path)).findings
    lines = {name: (tmp_path / name).read_text(encoding="utf-8").splitlines() for name in files}
    return [
        one.code
        for one in found
        if one.level != "note" and "# mark" in lines[Path(one.location.path).name][one.location.line - 1]
    ]


@pytest.mark.parametrize(
    ("caller", "line", "expected"),
    [
        (FUNCTION, "field = result * 0.5", ["GS707"]),
        (FUNCTION, "field, wall = result, wall", ["GS707"]),
        (FUNCTION, "field.copy_(result)", []),
        (FUNCTION, "change = (result - field).abs()", []),
        (METHOD, "self.frame = frame", ["GS707"]),
        (METHOD, "self.frame.copy_(frame)", []),
    ],
)
def test_what_a_helper_captured_is_refilled_and_not_bound_anew(
    tmp_path: Path, caller: str, line: str, expected: list[str]
) -> None:
    assert marked(tmp_path, {"helper.py": HELPER, "caller.py": caller.format(line=line)}) == expected


SLOTS = """\
from types import SimpleNamespace

import torch


class Scorer:
    def __init__(self, net, size, line):
        self.net, self.line = net, line
        self.inputs = SimpleNamespace(text=torch.zeros(size, device="cuda"), gate=torch.ones(size, device="cuda"))
        self.scores = {{}}

    def capture(self, sizes):
        self.graphs = {{}}
        for size in sizes:
            self.net(self.inputs.text, self.inputs.gate)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=self.line):
                self.scores[size] = self.net(self.inputs.text, self.inputs.gate)
            self.graphs[size] = graph

    def feed(self, text, gate):
        self.inputs.text.copy_(text)
        {feed}

    def score(self, size, text, gate):
        self.feed(text, gate)
        self.graphs[size].replay()
        return self.scores[size][: len(text)]{copy}


def rank(scorer: Scorer, batches):
    kept = []
    for text, gate in batches:
        marks = scorer.score(8, text, gate)
        kept.append(marks)  # mark
    return kept
"""


def test_inputs_in_a_namespace_are_refilled(tmp_path: Path) -> None:
    bound = {"a.py": SLOTS.format(feed="self.inputs.gate = gate  # mark", copy=".clone()")}
    filled = {"a.py": SLOTS.format(feed="self.inputs.gate.copy_(gate)  # mark", copy=".clone()")}
    assert marked(tmp_path, bound) == ["GS707"]
    assert marked(tmp_path, filled) == []


def test_outputs_of_a_table_are_not_kept_without_a_copy(tmp_path: Path) -> None:
    assert marked(tmp_path, {"a.py": SLOTS.format(feed="self.inputs.gate.copy_(gate)", copy="")}) == ["GS706"]
