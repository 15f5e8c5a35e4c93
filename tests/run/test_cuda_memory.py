"""Which memory outside its pool a graph of a real GPU uses, from nodes and segments that need no GPU to be made."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

from graphsafe.capture.device.cuda.nodes import GraphNode, Segments
from graphsafe.report.json_form import parse_saved, render_json
from graphsafe.report.ledger.html_form import with_processes
from graphsafe.report.ledger.model import Held
from graphsafe.report.ledger.terminal import processes_text
from graphsafe.report.model import CallSite
from graphsafe.run.child.cuda import memory as gpu_memory
from graphsafe.run.child.cuda import sight as cuda
from graphsafe.run.child.outside import Memory
from graphsafe.run.facts import LentUse, OutsideUse, PoolLine, ProcessFacts
from graphsafe.run.parent.idle import Readings
from graphsafe.run.parent.lost_memory import _replays_after
from graphsafe.run.parent.merge import _by_line
from tests.run.test_idle import ledger as ledger_of_a_graph

POOL = (0, 1)


@pytest.fixture
def tensors() -> dict[str, torch.Tensor]:
    return {name: torch.zeros(64) for name in ("weight", "x", "out", "inner")}


def touches(tensors: dict[str, torch.Tensor], *nodes: GraphNode) -> dict[str, tuple[str, bool]]:
    """Name -> access, and whether it is certain."""
    spans = [(one.data_ptr(), one.data_ptr() + one.nbytes, (0, 0)) for name, one in tensors.items() if name != "inner"]
    inner = tensors["inner"]
    spans.append((inner.data_ptr(), inner.data_ptr() + inner.nbytes, POOL))
    found = cuda._touches(nodes, Segments(tuple(sorted(spans))), {}, list(tensors.values()))
    names = {int(one.untyped_storage()._cdata): name for name, one in tensors.items()}
    return {names[int(touch.storage._cdata)]: (touch.access, touch.certain) for touch in found}


def test_copies_say_what_they_read_and_write(tensors: dict[str, torch.Tensor]) -> None:
    x, out = tensors["x"].data_ptr(), tensors["out"].data_ptr()
    copy = GraphNode("memcpy", "memcpy", (256, 1, 1), (x + 8, out), pointers=(x + 8, out))
    fill = GraphNode("memset", "memset", (4, 64, 1), (tensors["weight"].data_ptr(), 0))
    assert touches(tensors, copy, fill) == {
        "x": ("read", True),
        "out": ("write", True),
        "weight": ("write", False),
    }


def test_a_kernels_arguments_are_both_and_certain_where_they_stand_alone(tensors: dict[str, torch.Tensor]) -> None:
    weight, x, inner = (tensors[name].data_ptr() for name in ("weight", "x", "inner"))
    kernel = GraphNode("kernel", "mul", (1, 1, 1), (weight, 3, x, inner, 1 << 40), pointers=(weight, 3))
    assert touches(tensors, kernel) == {"weight": ("both", True), "x": ("both", False)}


def test_memory_of_the_graphs_own_pool_and_beyond_a_tensor_is_left_out(tensors: dict[str, torch.Tensor]) -> None:
    inner, x = tensors["inner"], tensors["x"]
    kernel = GraphNode("kernel", "mul", (1, 1, 1), (inner.data_ptr(), x.data_ptr() - 1))
    assert touches(tensors, kernel) == {}


def test_lost_memory_has_the_tensor_that_got_it(
    tensors: dict[str, torch.Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = torch.zeros(64).untyped_storage()
    memory = Memory(storage, (), "float32[64]", None, lambda _: None)
    memory.address = tensors["x"].data_ptr() + 8
    memory.status = "freed"
    assert memory.seeks_heir
    monkeypatch.setattr(cuda, "_all_tensors", lambda: list(tensors.values()))
    memory.found_heir(cuda.CudaSight.owners(object.__new__(cuda.CudaSight), [memory.address]).get(memory.address))
    assert memory.heir == "float32[64]"


def test_lines_of_memory_become_places_of_the_ledger() -> None:
    held = _by_line(ProcessFacts(by_line=(PoolLine(CallSite(__file__, 1, "build"), 512),)))
    assert held is not None
    assert [(one.location and one.location.function, one.bytes) for one in held] == [("build", 512)]


def test_lines_of_memory_are_shown_in_every_form() -> None:
    found = ledger_of_a_graph(Readings())
    facts = ProcessFacts(by_line=(PoolLine(CallSite(__file__, 1, "build"), 512),))
    (process,) = found.processes
    process = replace(process, memory=Held(512, _by_line(facts)))
    found = replace(found, processes=(process,))
    shown = "test_cuda_memory.py:1 holds 512 bytes in graphs"
    assert shown in processes_text(found, colour=False, width=120)
    assert shown in with_processes("<h2>Environment</h2>", found)
    assert parse_saved(render_json(found)) == found


def test_lines_of_memory_are_those_of_the_devices_that_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def segment(device: int, size: int) -> dict[str, object]:
        frames = [{"filename": __file__, "line": size, "name": "build"}]
        block = {"state": "active_allocated", "address": 1, "size": size, "frames": frames}
        return {"device": device, "segment_pool_id": POOL, "blocks": [block]}

    monkeypatch.setattr(torch.cuda, "memory_snapshot", lambda: [segment(0, 512), segment(1, 1024)])
    assert [one.bytes for one in gpu_memory.pool_lines(())] == [1024, 512]
    assert [one.bytes for one in gpu_memory.pool_lines({"cuda:1"})] == [1024]


def test_a_resized_storage_has_other_memory_and_one_that_is_left_alone_the_same(
    tensors: dict[str, torch.Tensor],
) -> None:
    memories = {name: Memory(one.untyped_storage(), (), name, None, lambda _: None) for name, one in tensors.items()}
    resized = tensors["weight"].untyped_storage()
    resized.resize_(1 << 24)
    assert not memories["weight"].is_in_place
    assert memories["x"].is_in_place


def test_a_tensor_that_is_resized_leaves_its_memory_at_this_line(tensors: dict[str, torch.Tensor]) -> None:
    weight = tensors["weight"]
    memory = Memory(weight.untyped_storage(), (), "weight", None, lambda _: None)
    line = CallSite(__file__, 1, "rebuild")
    for size, status in ((8, "alive"), (1 << 24, "moved")):
        memory.leaving((line,))
        weight.resize_(size)
        memory.look(lambda _: None)
        assert memory.status == status
    assert memory.frames == (line,)


class Graph:
    """A graph that can be referred to weakly."""


def test_a_tensor_of_the_pool_is_borrowed_if_an_earlier_graph_uses_it_and_it_is_not_filled_first(
    tensors: dict[str, torch.Tensor],
) -> None:
    maker, other = Graph(), Graph()
    inner, x = tensors["inner"], tensors["x"].data_ptr()
    at = inner.data_ptr()
    earlier = [(weakref.ref(maker), [at]), (weakref.ref(other), [x])]
    read = GraphNode("kernel", "cat", words=(x, at + 8))
    copied = GraphNode("memcpy", "memcpy", words=(at, x))
    filled = GraphNode("memcpy", "memcpy", words=(x, at))
    cleared = GraphNode("memset", "memset", words=(at, 0))

    def borrowed(*nodes: GraphNode) -> list[Sequence[Any]]:
        inside = sorted(word for node in nodes for word in node.words if at <= word < at + inner.nbytes)
        return [graphs for _, graphs in gpu_memory.borrowed(nodes, inside, [inner, inner[8:]], earlier)]

    assert borrowed(read) == borrowed(copied, filled) == [[maker]]
    assert borrowed() == borrowed(filled, read) == borrowed(cleared, read) == []
    assert gpu_memory.borrowed([read], [at + 8], [inner], earlier[1:]) == []


def test_replays_count_if_the_tensor_was_overwritten_and_not_made_again() -> None:
    use = OutsideUse("deep", "float32[64]", 256, None, "both", False, "freed")
    overwritten = LentUse(use, makers=(0,), takers=(2, 3))
    assert _replays_after([(0, 1), (1, 5), (2, 1), (1, 4), (3, 1), (1, 2)], 1, overwritten) == [4, 2]
    assert _replays_after([(0, 1), (1, 5), (2, 1), (0, 1), (1, 5)], 1, overwritten) == []
