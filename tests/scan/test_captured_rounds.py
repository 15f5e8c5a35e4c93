"""Graphs that each round of a loop captures for one replay."""

from __future__ import annotations

import textwrap

import pytest

from .conftest import Scan

RUNNER = """\
class Runner:
    def __init__(self, model, stream):
        self.model, self.stream, self.graphs = model, stream, []

    def step(self, x):
        self.model(x)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self.stream):
            y = self.model(x)
{rest}
        return y

def main(model, stream, loader):
    runner = Runner(model, stream)
    {loop}
        total = runner.step(x).sum()  # round
"""


@pytest.mark.parametrize(
    ("rest", "loop", "found"),
    [
        ("graph.replay()", "for x in loader:", True),
        ("graph.replay()\nself.graphs.append(graph)", "for x in loader:", False),
        ("for _ in range(100): graph.replay()", "for x in loader:", False),
        ("graph.replay()\ngraph.replay()", "for x in loader:", False),
        ("graph.replay()", "for x in range(3):", False),
        ("graph.replay()", "if (x := loader[0]) is not None:", False),
    ],
)
def test_a_method_that_captures_for_one_replay(scan: Scan, rest: str, loop: str, found: bool) -> None:
    text = RUNNER.format(rest=textwrap.indent(rest, " " * 8), loop=loop)
    assert [one for one in scan(text) if one[0] == "GS617"] == [
        ("GS617", "total = runner.step(x).sum()  # round")
    ] * found


def test_a_method_that_keeps_a_result(scan: Scan) -> None:
    text = RUNNER.format(rest="        graph.replay()", loop="for x in loader:")
    text = text.replace(
        "        self.model(x)\n", "        if x in self.graphs: return self.graphs[x]\n        self.model(x)\n"
    )
    assert [one for one in scan(text) if one[0] == "GS617"] == []


ROUNDS = """\
def capture_all(model, stream, stages, sizes):
    {before}
    graphs = {{}}
    for stage in range(stages):
        {again}
        for size in reversed(sizes):
            {part}
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=stream):
                y = model(rows)
            graphs[stage, size] = graph, y
    return graphs
"""
WHOLE = "buffer = rows = torch.zeros(64, device='cuda')"
NARROWED = "rows = rows[:size]"


@pytest.mark.parametrize(
    ("before", "again", "part", "found"),
    [
        (WHOLE, "pass", NARROWED, [("GS703", NARROWED)]),
        (WHOLE, "pass", "rows = buffer[:size]", []),
        (WHOLE, "rows = buffer", NARROWED, []),
        (WHOLE, "pass", "rows = rows[:64]", []),
    ],
)
def test_a_buffer_that_becomes_smaller_with_each_capture(
    scan: Scan, before: str, again: str, part: str, found: list[tuple[str, str]]
) -> None:
    source = textwrap.indent(ROUNDS.format(before=before, again=again, part=part), "    ")
    assert [one for one in scan(source) if one[0] == "GS703"] == found
