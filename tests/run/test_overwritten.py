"""Reads of a graph's result after another graph of its pool has written over it. The tensors are the host's."""

from __future__ import annotations

import ast
import sys
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from graphsafe.capture.shared.frames import user_frames, user_frames_now
from graphsafe.run.child.cuda.sight import _overwriters
from graphsafe.run.child.names import storage_number
from graphsafe.run.child.records import GraphRecord
from graphsafe.run.child.results.overwritten import Reads, reads_in

older = pytest.mark.skipif(sys.version_info < (3, 12), reason="lines are told from Python 3.12 on")


class Graph:
    """A graph whose replays are seen by `reads`."""

    def __init__(self, number: int, reads: Reads) -> None:
        self.record = GraphRecord(number, (), None, "", "", "", 0, slot=3 * number, handled=0)
        self._reads = reads
        self.out = torch.ones(4)

    def replay(self) -> None:
        self._reads.replaying(self.record, user_frames_now(sys._getframe(1)), user_frames(sys._getframe(1))[0])
        self.record.looks += 1
        counts[self.record.number] = counts.get(self.record.number, 0) + 1


counts: dict[int, int] = {}


@pytest.fixture
def graphs() -> Iterator[tuple[Graph, Graph]]:
    """An earlier graph, which writes over the output of a later one."""
    counts.clear()
    reads = Reads(lambda number: counts.get(number, 0), lambda: None)
    earlier, later = Graph(0, reads), Graph(1, reads)
    number = storage_number(later.out)
    assert number is not None
    earlier.record.overwrites.append((later.record, number))
    yield earlier, later
    assert reads.problem is None
    reads.close()


def found(graph: Graph) -> tuple[int, int] | None:
    """The lines of the read and of the replay that wrote over it, from the first line of the test on."""
    first = sys._getframe(1).f_code.co_firstlineno
    read = graph.record.overwritten
    return None if read is None else (read.read.line - first, read.replay[-1].line - first)


@older
def test_a_read_after_the_other_graphs_replay_is_found(graphs: tuple[Graph, Graph]) -> None:
    a, b = graphs
    out = b.out
    b.replay()
    a.replay()
    total = out.sum()
    assert total is not None and found(b) == (6, 5)


@older
def test_a_result_that_a_function_returned_is_one_too(graphs: tuple[Graph, Graph]) -> None:
    a, b = graphs

    def run(graph: Graph) -> torch.Tensor:
        graph.replay()
        return graph.out

    draft = run(b)
    target = run(a)
    assert (target - draft).sum() == 0
    assert found(b) == (10, 5)


@older
def test_a_loop_that_uses_each_result_up_is_not_accused(graphs: tuple[Graph, Graph]) -> None:
    a, b = graphs
    first, second = a.out, b.out
    totals = []
    for _ in range(4):
        b.replay()
        totals.append(second.sum())
        a.replay()
        totals.append(first.sum())
    assert found(b) is None and found(a) is None


@older
def test_a_line_that_replays_the_graph_itself_before_it_reads_is_none(graphs: tuple[Graph, Graph]) -> None:
    a, b = graphs

    def play(graph: Graph, out: torch.Tensor) -> torch.Tensor:
        graph.replay()
        return out.clone()

    first, second = a.out, b.out
    results = []
    for _ in range(4):
        x = play(b, second)
        y = play(a, first)
        results.append((x, y))
    last = play(b, second)
    assert last is not None and found(b) is None and found(a) is None


@older
def test_variables_that_nobody_reads_and_new_ones_are_no_reads(graphs: tuple[Graph, Graph]) -> None:
    a, b = graphs
    kept: list[Any] = []
    for _ in range(3):
        b.replay()
        out = b.out
        a.replay()
        kept.append(out)
        size, known = out.shape, out is None
        out.zero_()
        out = torch.zeros(4)
        assert out.sum() == 0 and size and not known
    assert found(b) is None


@older
def test_a_result_that_has_no_replay_yet_is_nobodys(graphs: tuple[Graph, Graph]) -> None:
    a, b = graphs
    out = b.out
    a.replay()
    assert out.sum() == 4
    assert found(b) is None


LOOKS = ("y = f(a)", "y = a @ b", "torch.cat([a, b])", "f(*a, x=[{0: a}])", "if a > 0: pass", "y = a[0]", "y = a.sum()")
PASSES_ON = (
    "return a",
    "y = a, b",
    "kept.append((a, b))",
    "y = a.shape",
    "a.zero_()",
    "a[0] = 1",
    "y = len(a)",
    "a is b",
)


@pytest.mark.parametrize(("code", "looks"), [*((one, True) for one in LOOKS), *((one, False) for one in PASSES_ON)])
def test_code_looks_at_a_value_or_passes_it_on(code: str, looks: bool) -> None:
    assert ("a" in {name for name, _ in reads_in(ast.parse(code))}) is looks


def test_an_earlier_graph_writes_over_outputs_that_lie_in_its_temporary_memory() -> None:
    class Captured:
        pass

    one, other, out = Captured(), Captured(), torch.zeros(16)
    inside = out.untyped_storage().data_ptr()
    earlier = [(weakref.ref(one), [inside - 64, inside + 16]), (weakref.ref(other), [inside - 64, inside + 64])]
    assert _overwriters(earlier, [out]) == [(one, storage_number(out))]
    assert _overwriters([(weakref.ref(Captured()), [inside])], [out]) == []
