"""The order of a CUDA graph's nodes, and the races that it leaves open."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from graphsafe.capture.device.cuda import order  # noqa: E402
from graphsafe.capture.device.races import Work, access_of  # noqa: E402


@pytest.mark.parametrize(
    ("edges", "found"),
    [
        (((0, 1), (1, 2), (2, 3)), []),
        # NCCL records an event, for which nothing waits, after the kernel for which the next operation waits.
        (((0, 1), (1, 2), (1, 3)), []),
        (((0, 1), (1, 2)), [("aten::mul", "aten::add"), ("c10d::allreduce_", "aten::add")]),
    ],
)
def test_an_operation_of_several_nodes_is_ordered_by_any_of_them(
    monkeypatch: pytest.MonkeyPatch, edges: tuple[tuple[int, int], ...], found: list[tuple[str, str]]
) -> None:
    tensor = torch.zeros(4)
    touched = order.MemoryTouched.__new__(order.MemoryTouched)
    touched.work = [
        Work(op, (), None, tuple(filter(None, [access_of(tensor, True)])))
        for op in ("aten::mul", "c10d::allreduce_", "aten::add")
    ]
    touched.nodes = [range(1), range(1, 3), range(3, 4)]
    monkeypatch.setattr(order, "graph_edges", lambda raw_graph: edges)
    assert [(race.other_op, race.op) for race in order.races_of(0, touched)] == found
