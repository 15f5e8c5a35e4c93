"""Callables that code hands to a function of the project which calls them in a loop."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from graphsafe.config import Config
from graphsafe.scan.api import scan_paths

from .projects import write_project

WORK = """\
import torch
from rounds import {loop}

class Heat:
    def __init__(self, n):
        self.t = torch.rand(n, n, device="cuda:0")

    def relax(self):
        self.t.mul_(0.5)
        return float(self.t.sum())

def shrink(t: torch.Tensor):
    return t[t > 0.5]

def run():
    heat = Heat(64)
    {loop}({handed})
"""
REPEATS = """\
def again(what, rounds):
    for _ in range(rounds):
        what()
"""
LOOPS = {
    "repeats": REPEATS,
    "between events": """\
        import torch

        def again(what, *given, rounds=100):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            with torch.inference_mode():
                start.record()
                for _ in range(rounds):
                    result = what(*given)
                end.record()
            return result, start.elapsed_time(end)
        """,
    "with its own result": """\
        def again(what, state, rounds):
            for _ in range(rounds):
                state = what(state)
            return state
        """,
}
OTHERS = {
    "keeps the results": """\
        def again(what, rounds):
            made = []
            for _ in range(rounds):
                one = what()
                made.append(one)
            return made
        """,
    "tries again": """\
        def again(what, rounds):
            for _ in range(rounds):
                try:
                    return what()
                except OSError:
                    pass
        """,
    "one for each number": """\
        def again(what, count):
            for i in range(count):
                what(i)
        """,
    "one for each item, in rounds": """\
        def again(what, items):
            for _ in range(len(items)):
                for item in items:
                    what(item)
        """,
    "a few times": """\
        def again(what, count):
            for _ in range(3):
                what()
        """,
}


def found(tmp_path: Path, loop: str, handed: str) -> list[str]:
    files = {"rounds.py": textwrap.dedent(loop), "work.py": WORK.format(loop="again", handed=handed)}
    root = write_project(tmp_path, files)
    report = scan_paths([root], Config(root=root))
    return [f"{f.code} {f.location.line}" for f in report.findings if f.level != "note"]


@pytest.mark.parametrize("loop", LOOPS)
def test_a_method_is_hot_where_a_loop_repeats_it(tmp_path: Path, loop: str) -> None:
    assert found(tmp_path, LOOPS[loop], "heat.relax, 100") == ["GS101 10"]


@pytest.mark.parametrize(
    ("handed", "line"),
    [("shrink, heat.t", "GS202 13"), ("lambda: heat.relax(), 9", "GS101 10")],
    ids=["plain", "lambda"],
)
def test_a_function_is_hot_too(tmp_path: Path, handed: str, line: str) -> None:
    assert found(tmp_path, LOOPS["between events"], handed) == [line]


@pytest.mark.parametrize("loop", OTHERS)
def test_a_loop_that_does_something_else(tmp_path: Path, loop: str) -> None:
    assert found(tmp_path, OTHERS[loop], "heat.relax, 100") == []
