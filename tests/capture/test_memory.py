"""Memory by line: what a step takes, and what its graph uses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from graphsafe.capture.child.memory_use import memory_held
from graphsafe.capture.device.cuda.hashing import word_sums
from graphsafe.capture.device.cuda.memory import free_sizes, memory_events
from graphsafe.capture.device.protocol import MemoryEvent
from graphsafe.report.model import CallSite
from graphsafe.report.probes.memory import Held

from .conftest import DEVICES, TARGETS, Prove, probes_of

FILE = TARGETS / "memory.py"
NAMES = ["scratch", "in_place", "unready"]
WIDE = 1024 * 64 * 4
OUTPUT = 4 * 64 * 4


@pytest.fixture(scope="module", params=DEVICES)
def memory(request: pytest.FixtureRequest, prove: Prove) -> Callable[[str], dict[str, Any]]:
    found = prove([f"{FILE}:{name}" for name in NAMES], request.param)
    return {name: probes_of(report)["memory"] for name, report in zip(NAMES, found, strict=True)}.__getitem__


def by_mark(held: dict[str, Any], key: str) -> dict[str, int]:
    """Lines with some of it, by the mark at their end."""
    text = FILE.read_text(encoding="utf-8").splitlines()
    lines = [(int(line["place"].rpartition(":")[2]), line[key]) for line in held["lines"] if line[key]]
    return {text[number - 1].rpartition("# line: ")[2]: value for number, value in lines}


def test_a_step_takes_memory_by_line(memory: Callable[[str], dict[str, Any]]) -> None:
    step = memory("scratch")["step"]
    assert by_mark(step, "bytes") == {"wide": WIDE, "twice": WIDE}
    assert by_mark(step, "allocated") == {"wide": WIDE, "twice": WIDE, "output": OUTPUT}
    assert (step["bytes"], step["count"], step["kept"]) == (2 * WIDE, 3, 0)


def test_a_graph_keeps_its_outputs(memory: Callable[[str], dict[str, Any]]) -> None:
    probe = memory("scratch")
    assert by_mark(probe["pool"], "bytes") == {"wide": WIDE, "twice": WIDE}
    assert by_mark(probe["pool"], "kept") == {"output": OUTPUT}
    assert probe["pool_bytes"] is None or probe["pool_bytes"] >= probe["pool"]["bytes"]


def test_a_step_in_place_takes_nothing(memory: Callable[[str], dict[str, Any]]) -> None:
    probe = memory("in_place")
    assert (probe["step"]["bytes"], probe["pool"]["bytes"]) == (0, 0)


def test_a_step_that_cannot_be_captured_takes_memory_too(memory: Callable[[str], dict[str, Any]]) -> None:
    probe = memory("unready")
    assert probe["status"] == "pass"
    assert by_mark(probe["step"], "bytes")["unready"] == WIDE
    assert probe["pool"] is None


def test_what_cannot_be_stepped_for_it_is_not_known(prove: Prove) -> None:
    (found,) = prove([f"{FILE}:only_captured"], "sim:0")
    probes = probes_of(found)
    assert [probes[name]["status"] for name in ("step", "capture")] == ["pass", "pass"]
    assert probes["memory"]["step"]["bytes"] == 256
    assert probes["memory"]["pool"] is None
    (limit,) = [limit for limit in found["limits"] if limit["kind"] == "memory"]
    assert "not without a graph" in limit["why"]


A, B = CallSite("a.py", 1, "step"), CallSite("a.py", 2, "step")


def test_the_most_held_at_once_is_of_the_lines_that_held_it_then() -> None:
    events = [MemoryEvent(1, 10, A), MemoryEvent(2, 20, B), MemoryEvent(1, 0), MemoryEvent(3, 5, A), MemoryEvent(2, 0)]
    held = memory_held(events)
    assert (held.bytes, held.allocated, held.count, held.kept) == (30, 35, 3, 5)
    assert [(line.frames[-1].line, line.bytes, line.kept) for line in held.lines] == [(2, 20, 0), (1, 10, 5)]


def test_a_block_is_used_again_and_others_are_not_ours() -> None:
    held = memory_held([MemoryEvent(9, 0), MemoryEvent(1, 10, A), MemoryEvent(1, 0), MemoryEvent(1, 8)])
    assert (held.bytes, held.allocated, held.kept) == (10, 18, 8)
    assert held.lines[-1].frames == ()
    assert memory_held([]) == Held(0, 0, 0, 0, ())


def test_the_allocators_history_has_the_innermost_frame_first() -> None:
    frames = [
        {"filename": "/site-packages/torch/nn/functional.py", "line": 7, "name": "linear"},
        {"filename": "/home/me/model.py", "line": 12, "name": "Layer.forward"},
        {"filename": "/home/me/model.py", "line": 40, "name": "Model.forward"},
    ]
    trace = [
        {"action": "segment_alloc", "addr": 64, "size": 2 << 20, "frames": []},
        {"action": "alloc", "addr": 64, "size": 100, "frames": frames},
        {"action": "free_requested", "addr": 64, "size": 100, "frames": []},
        {"action": "free_completed", "addr": 64, "size": 100, "frames": []},
        {"action": "alloc", "addr": 64, "size": 8, "frames": frames[:1]},
    ]
    trace.append({"action": "alloc", "addr": 4096 + 512, "size": 8, "frames": []})
    segments = [
        {"address": address, "total_size": 2048, "segment_pool_id": pool}
        for address, pool in ((0, (0, 0)), (4096, (0, 3)))
    ]
    place = CallSite("/home/me/model.py", 12, "Layer.forward")
    assert memory_events(trace, segments) == [
        MemoryEvent(64, 100, place),
        MemoryEvent(64, 0),
        MemoryEvent(64, 8),
        MemoryEvent(4096 + 512, 8, private=True),
    ]


def test_all_free_blocks_are_asked_for_at_sizes_that_their_pool_serves() -> None:
    def segment(kind: str, *blocks: tuple[str, int]) -> dict[str, Any]:
        told = [{"state": state, "size": size} for state, size in blocks]
        return {"segment_type": kind, "blocks": told}

    mib = 1 << 20
    small = segment("small", ("inactive", 512), ("active_allocated", 1024), ("inactive", mib + 512))
    large = segment("large", ("inactive", 12 * mib), ("active_awaiting_free", 2 * mib))
    assert free_sizes([small, large]) == [512, 512, mib, 12 * mib]


@pytest.mark.parametrize("group", [3, 64, 1 << 21])
def test_a_hash_does_not_depend_on_what_is_hashed_with_it(group: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def sums(data: torch.Tensor) -> list[int]:
        padded = torch.cat([data, torch.zeros(-data.numel() % 8, dtype=torch.uint8)])
        words, mask = padded.view(torch.int64).tolist(), (1 << 64) - 1
        both = [
            sum(word * (2 * place + 1) for place, word in enumerate(words)),
            sum((word ^ (word >> 29)) * (place * 0x5851F42D4C957F2D | 1) for place, word in enumerate(words)),
        ]
        return [(one & mask) - ((one & mask) >> 63 << 64) for one in both]

    monkeypatch.setattr("graphsafe.capture.device.cuda.hashing._GROUP_WORDS", group)
    drawn = torch.Generator().manual_seed(0)
    data = [torch.randint(0, 256, (size,), dtype=torch.uint8, generator=drawn) for size in (0, 1, 8, 9, 4097, 16, 0)]
    assert word_sums(data).tolist() == [sums(one) for one in data]
