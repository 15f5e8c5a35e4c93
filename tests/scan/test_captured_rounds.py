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


FEED = """\
class Tank:
    def __init__(self, model, x, stream):
        self.model, self.x, self.stream = model, x, stream
        self.graph = torch.cuda.CUDAGraph()

    def record(self):
        self.model(self.x)
        with torch.cuda.graph(self.graph, stream=self.stream):
            self.y = self.model(self.x)

class Feed:
    def __init__(self, tank):
        self.tank = tank
        self.free = {made}

    def take(self, number):
        {taken}

def main(model, x, stream, loader):
    tank = Tank(model, x, stream)
    feed = Feed(tank)
    for number in loader:
        feed.take(number)  # round
        tank.graph.replay()
"""
EVENTS = "[torch.cuda.Event() for _ in range(2)]"


@pytest.mark.parametrize(
    ("made", "taken", "found"),
    [
        (EVENTS, "self.free[number % 2].record()", False),
        (EVENTS, "for event in self.free: event.record()", False),
        ("torch.cuda.Event()", "self.free.record(torch.cuda.current_stream())", False),
        (EVENTS, "self.tank.record()", True),
        ("[tank, torch.cuda.Event()]", "self.free[0].record()", True),
    ],
)
def test_an_event_has_a_method_of_the_same_name_as_the_capture(scan: Scan, made: str, taken: str, found: bool) -> None:
    source = FEED.format(made=made, taken=taken)
    assert [one for one in scan(source) if one[0] == "GS617"] == [("GS617", "feed.take(number)  # round")] * found
