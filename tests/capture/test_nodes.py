"""Two captures of one step as lists of nodes: what counts as a difference."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch")

from graphsafe.capture.child.probes.twin import compare_captures
from graphsafe.capture.device.cuda.nodes import GraphNode, Segments, differences
from graphsafe.capture.device.protocol import NotComparable
from graphsafe.report.model import CallSite
from graphsafe.report.probes.twin import Twin

OWN, OTHER, OUTSIDE = (0, 1), (0, 2), (0, 0)
SEGMENTS = Segments(
    ((0x1000_0000, 0x1000_1000, OWN), (0x2000_0000, 0x2000_1000, OTHER), (0x3000_0000, 0x3000_1000, OUTSIDE))
)


def kernel(*words: int, name: str = "add", grid: int = 1) -> GraphNode:
    return GraphNode("kernel", name, (grid, 1, 1, 128, 1, 1, 0), words)


def found(first: list[GraphNode], second: list[GraphNode], **options: object) -> list[tuple[int, str, str, str]]:
    answers = differences(first, second, (OWN, OTHER), SEGMENTS, **options)
    return [(one.node, one.what, one.before, one.after) for one in answers]


def test_memory_of_its_own_pool_may_lie_anywhere_in_the_other_graph() -> None:
    assert found([kernel(0x1000_0010)], [kernel(0x2000_0800)]) == []


def test_memory_outside_has_to_stay() -> None:
    assert found([kernel(0x3000_0000)], [kernel(0x3000_0000)]) == []
    assert found([kernel(0x3000_0000)], [kernel(0x3000_0020)]) == [(0, "address", "memory", "other memory")]
    assert found([kernel(0x3000_0000)], [kernel(0x1000_0000)]) == [(0, "address", "memory", "memory of another graph")]


def test_a_scalar_is_told_as_the_number_it_is() -> None:
    one, two = 0x3F80_0000 << 32 | 7, 0x4000_0000 << 32 | 7
    assert found([kernel(one)], [kernel(two)]) == [(0, "scalar", "1", "2")]


def test_another_size_another_kernel_and_another_number_of_nodes() -> None:
    assert [each[:2] for each in found([kernel(grid=4)], [kernel(grid=3)])] == [(0, "extent")]
    assert found([kernel(), kernel(name="mul")], [kernel(), kernel(name="div")])[0] == (1, "operation", "mul", "div")
    assert found([kernel()], [kernel(), kernel(name="mul")]) == [(1, "count", "1 nodes", "2 nodes")]


def test_a_place_comes_from_the_second_graph_where_it_is_known() -> None:
    frames = (CallSite("model.py", 12, "forward"),)
    answers = differences(
        [kernel(), kernel(1)], [kernel(), kernel(2)], (OWN, OTHER), SEGMENTS, [None, (frames, None, "aten::add")]
    )
    assert (answers[0].frames, answers[0].op) == (frames, "aten::add")


@pytest.mark.child
def test_what_the_driver_does_not_tell_is_said_and_decides_nothing() -> None:
    class Untold:
        def opaque_nodes(self) -> int:
            raise NotComparable("the driver lacks cuFuncGetName; CUDA 12.4 has it")

    told = compare_captures(Any, Untold(), {})  # type: ignore[arg-type]
    assert told == Twin(reason="the driver lacks cuFuncGetName; CUDA 12.4 has it")
