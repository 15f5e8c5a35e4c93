"""Numbers that captures froze, results that a later replay overwrites, and generators."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from graphsafe.capture.device.cuda.nodes import GraphNode
from graphsafe.capture.shared.frames import user_frames, user_frames_now
from graphsafe.report.model import CallSite
from graphsafe.run.child.cuda.pinned import PinnedReads
from graphsafe.run.child.cuda.sight import CudaSight, _filled, _is_used
from graphsafe.run.child.names import storage_number
from graphsafe.run.child.records import GraphRecord
from graphsafe.run.child.results.later_replay import Results
from graphsafe.run.child.sight import Contents, Touch
from graphsafe.run.child.steps import Step, Steps
from tests.run.test_run import PROGRAMS, expected, program, run
from tests.run.test_silent import Replays

TOLD = {
    "variables.py": {
        "window": ("8", "16"),
        "span": ("8", "16"),
        "parts": ("[4, 4]", "[2, 6]"),
        "reach": ("4", "7"),
        "end": ("4", "7"),
        "mask": ("None", "a tensor"),
        "self.bias is not None": ("False", "True"),
    },
    "captured.py": {
        "context().reach": ("16", "20"),
        "lengths.reach": ("16", "20"),
        "level.guidance": ("1.5", "2.0"),
        "1.0 - self.config['gravity']": ("0.0", "-0.5"),
        "self.weight": ("2.0", "3.0"),
        "self.rates[self.at]": ("0.5", "0.25"),
        "self.fast": ("False", "True"),
        "self.turns": ("2", "3"),
        "beta": ("1.0", "0.5"),
    },
    "previous.py": {},
    "requests.py": {"scale": ("0.5", "0.25"), "reach": ("2", "6")},
    "generators.py": {},
    "optional.py": {"negative is not None": ("False", "True"), "normalize": ("True", "False")},
    "kept.py": {},
    "views.py": {},
    "decided.py": {"Dropout.training": ("True", "False")},
    "turns.py": {},
    "lent.py": {},
}
QUICK = ("decided.py", "optional.py")
"Together they have numbers, results, generators and what decides in the host."


@pytest.mark.child
@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in TOLD]
)
def test_every_fault_is_named_with_its_line_and_no_sound_code(name: str, tmp_path: Path) -> None:
    shutil.copy(PROGRAMS / name, tmp_path)
    ran = run(tmp_path, "-o", "ledger.json", "--", sys.executable, name)
    assert ran.stdout == "done\n", ran.stderr
    ledger = json.loads((tmp_path / "ledger.json").read_text(encoding="utf-8"))
    found = ledger["findings"]
    assert {(one["code"], one["location"]["line"]) for one in found} == expected(PROGRAMS / name)
    values = {
        one["data"]["argument"]: (one["data"]["captured"], one["data"]["now"]) for one in found if "now" in one["data"]
    }
    assert values == TOLD[name]
    assert not [limit for limit in ledger["limits"] if limit["kind"] == "internal"]
    unknown = [one for one in found if "not known" in one["why"]]
    lost = {what for one in found if one["code"] == "GS711" for what in one["data"]["what"]}
    assert lost.isdisjoint({"view", "weight", "rows[0]"}), "named as what is lost, not as a view of it"
    assert len(unknown) == (name in ("kept.py", "generators.py")) and not any(
        "replay()` keeps" in one["message"] for one in found
    )


class Replayed:
    """A graph whose only output is `out`; `results` cannot see eager operations, as on a GPU."""

    def __init__(self, results: Results, number: int = 0) -> None:
        self.results = results
        self.out = torch.ones(4)
        self.record = GraphRecord(number, (), None, "", "", "", 0, slot=3 * number, handled=0)
        own = storage_number(self.out)
        self.record.contents = Contents(owns=lambda tensor: storage_number(tensor) == own)

    def run(self, x: float) -> torch.Tensor:
        frame = sys._getframe(1)
        self.results.replaying(self.record, user_frames_now(frame), user_frames(frame)[0])
        return self.out


def read_at(graph: Replayed) -> int | None:
    """The line of the read that was found, from the first line of the test on."""
    read = graph.record.overwritten
    return None if read is None else read.read.line - sys._getframe(1).f_code.co_firstlineno


def test_a_result_that_the_next_statements_read_is_found_without_seeing_operations() -> None:
    graph = Replayed(Results(is_reading_told=False))
    first = graph.run(1.0)
    second = graph.run(2.0)
    shape = first.shape
    loss = first @ second
    assert read_at(graph) == 5 and loss.shape != shape


def test_a_result_that_is_copied_or_not_read_again_is_none() -> None:
    copied, unread = Replayed(Results(is_reading_told=False)), Replayed(Results(is_reading_told=False))
    first = copied.run(1.0).clone()
    second = copied.run(2.0)
    assert (first @ second).item() == 4
    before = unread.run(1.0)
    total = before.sum()
    after = unread.run(2.0)
    total = total + after.sum()
    assert read_at(copied) is read_at(unread) is None and before is after


def test_a_buffer_that_two_graphs_fill_is_told_at_the_second_statement() -> None:
    results = Results(is_reading_told=False)
    draft, target = Replayed(results), Replayed(results, 1)
    target.out = draft.out
    for graph in (draft, target):
        graph.record.contents = Contents(fills=_filled([Touch.of(draft.out, "write", True, None)]))
    for _ in range(2):
        ours = draft.run(1.0)
        theirs = target.run(1.0)
        ratio = ours / theirs
    assert read_at(draft) == 8 and ratio.sum() == 4
    read = draft.record.overwritten
    assert read is not None and read.kept == "ours" and read.later is not None


def test_addresses_of_a_graph_say_which_tensors_are_its_own() -> None:
    inside, outside = torch.ones(4), torch.ones(4)
    words = sorted([8, inside.data_ptr() + 4, 1 << 60])
    assert _is_used(words, inside) and not _is_used(words, outside)
    assert _filled([Touch.of(inside, "both", True, None)]) == ()


class Event:
    """An event of a GPU that has not come until `is_done`."""

    is_done = False

    def record(self) -> None:
        pass

    def query(self) -> bool:
        return Event.is_done


@pytest.fixture
def page() -> tuple[torch.Tensor, PinnedReads, list[tuple[str, int]]]:
    """Host memory, of which a graph copies the first half, and what is told of it."""
    memory, told = torch.zeros(64), []

    def tell(write: Sequence[CallSite], _: Sequence[CallSite], storage: int) -> None:
        told.append((write[-1].function or "", storage))

    copy = GraphNode("memcpy", "memcpy", (128, 1, 1), (memory.data_ptr(), 8))
    return memory, PinnedReads([copy], [Touch.of(memory, "read", True, None)], tell, Event), told


def replay(reads: PinnedReads, write: Callable[[], Any], times: int = 24) -> None:
    for _ in range(times):
        write()
        reads.replaying()
        reads.replayed()


@pytest.mark.parametrize(
    ("is_done", "part", "found"), [(False, slice(32), 8), (True, slice(32), 0), (False, slice(32, 64), 0)]
)
def test_pinned_memory_counts_if_the_part_that_is_read_changes_while_a_replay_runs(
    page: tuple[torch.Tensor, PinnedReads, list[tuple[str, int]]], is_done: bool, part: slice, found: int
) -> None:
    memory, reads, told = page
    Event.is_done = is_done
    replay(reads, lambda: memory[part].add_(1))
    assert len(told) == found
    assert not found or {storage for _, storage in told} == {storage_number(memory)}


def test_a_graph_that_signals_inside_is_left_out() -> None:
    memory = torch.zeros(64)
    nodes = [GraphNode("memcpy", "memcpy", (128, 1, 1), (memory.data_ptr(), 8)), GraphNode("event-record", "")]
    assert not PinnedReads(nodes, [Touch.of(memory, "read", True, None)], lambda *_: None, Event)


def test_many_eager_steps_are_placed_where_they_run_not_where_they_were_tried_first() -> None:
    steps, warm, serve = Steps(Replays(0, ())), CallSite("serve.py", 5, "warm"), CallSite("serve.py", 9, "serve")
    step = (("forward", "", 1),)
    steps.captured(Step(step, ((4, 8),), (CallSite("serve.py", 2, "capture"),)), 0)
    for place, times in ((warm, 2), (serve, 20)):
        for _ in range(times):
            steps.eager(step, ((8, 8),), False, lambda place=place: (place,))
    (facts,) = steps.facts()
    assert facts.sizes == {"8": 22} and facts.place[0].line == 9


def test_a_gpu_tells_of_storages_and_tensors_that_are_resized(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[int] = []
    original, of_tensors = torch.UntypedStorage.resize_, torch.Tensor.resize_
    sight = CudaSight(stacks=False)
    sight.watch_moves(told.append, told.append)
    try:
        storage = torch.zeros(4).untyped_storage()
        storage.resize_(8)
        assert storage.nbytes() == 8 and told == []  # host memory
        monkeypatch.setattr(torch.UntypedStorage, "is_cuda", True)
        storage.resize_(16)
        assert told == [storage._cdata]
        tensor = torch.zeros(4)
        assert tensor.resize_(8).shape == (8,) and len(told) == 1
        monkeypatch.setattr(torch.Tensor, "is_cuda", True)
        assert tensor.resize_(16).resize_as_(torch.zeros(2, 2)).shape == (2, 2)
        assert told[1:] == [storage_number(tensor)] * 2
    finally:
        sight.end()
    assert torch.UntypedStorage.resize_ is original and torch.Tensor.resize_ is of_tensors


@pytest.mark.child
@pytest.mark.parametrize(("current", "told"), [(0, [5]), pytest.param(1, [], marks=pytest.mark.slow)])
def test_a_generator_registered_on_another_device_is_told(current: int, told: list[int], tmp_path: Path) -> None:
    text = f"""
        import torch
        graph, generator = torch.cuda.CUDAGraph(), torch.Generator(device="cuda:1")
        with torch.cuda.device({current}):
            graph.register_generator_state(generator)
        with torch.cuda.device(1):
            with torch.cuda.graph(graph, stream=torch.cuda.Stream()):
                torch.rand(4, device="cuda:1", generator=generator)
            graph.replay()
        """
    name = program(tmp_path, text)
    ran = run(tmp_path, "--device", "sim:1", "-o", "ledger.json", "--", sys.executable, name, device="sim:0")
    assert ran.returncode in (0, 1), ran.stderr
    found = json.loads((tmp_path / "ledger.json").read_text(encoding="utf-8"))["findings"]
    assert [one["location"]["line"] for one in found if one["code"] == "GS502"] == told
