"""Whether writes of a graph's inputs and replays are ordered on a GPU, from what PyTorch tells of streams and events.

The tensors are the host's, and the streams numbers: writes are seen by versions.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch

from graphsafe.capture.device.cuda.nodes import GraphNode
from graphsafe.capture.shared.frames import user_frames, user_frames_now
from graphsafe.report.model import CallSite
from graphsafe.run.child.cuda import order
from graphsafe.run.child.cuda.order import CudaOrder
from graphsafe.run.child.names import Name, names_in, storage_number
from graphsafe.run.child.sight import Touch

pytestmark = pytest.mark.child  # names are looked up among all objects, for a second each time

MAIN, SIDE = (0, 0), (0, 7)


@pytest.fixture(autouse=True)
def frames_of_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """`torch.cuda.stream` has no frame of the user's, and `Device` stands in its place."""

    def frames() -> tuple[tuple[CallSite, ...], None]:
        found, _ = user_frames(sys._getframe(1))
        return tuple(one for one in found if one.function is None or one.function.startswith("test_")), None

    monkeypatch.setattr(order, "user_frames", frames)


class Graph:
    """A graph that can be referred to weakly."""


class OnDevice:
    """A storage that seems to be on a GPU."""

    device = torch.device("cuda")

    def __init__(self, storage: torch.UntypedStorage) -> None:
        self._cdata, self.data_ptr = storage._cdata, storage.data_ptr


class Device:
    def __init__(self) -> None:
        self.current = MAIN
        self.order = CudaOrder(lambda: self.current)
        self._event = 0

    @contextmanager
    def stream(self, stream: tuple[int, int]) -> Iterator[None]:
        before = self.current
        self._switch(stream)
        try:
            yield
        finally:
            self._switch(before)

    def _switch(self, stream: tuple[int, int]) -> None:
        self.order.look()
        self.current = stream
        self.order.switched()

    def wait_stream(self, waiting: tuple[int, int], other: tuple[int, int]) -> None:
        self._event += 1
        self.order.look()
        self.order.refills.recorded(self._event, other)
        self.order.look()
        self.order.refills.waited(waiting, self._event)
        self.order.refills.forgotten(self._event)

    def synchronize(self) -> None:
        self.order.look()
        self.order.refills.host_waited()

    def capture(self, **tensors: torch.Tensor) -> list[int]:
        numbers = {number: name for name, one in tensors.items() if (number := storage_number(one)) is not None}
        found = names_in(user_frames_now(sys._getframe(1)))
        self.order.captured({number: found[number] for number in numbers})
        return list(numbers)

    def found(self) -> list[tuple[int, int]]:
        """The lines of writes and of the replays that read them, from the first line of the test on."""
        first = sys._getframe(1).f_code.co_firstlineno
        return [(w[-1].line - first, r[-1].line - first) for w, r, *_ in self.order.refills.found()]


def test_a_prefetch_that_waits_for_nothing_is_found_with_its_line() -> None:
    device, static = Device(), torch.zeros(4)
    reads = device.capture(static=static)
    for step in range(3):
        with device.stream(SIDE):
            value = torch.full((4,), float(step))
            static.copy_(value)
        device.wait_stream(MAIN, SIDE)
        device.order.replaying(reads)
    assert device.found() == [(6, 8)]


def test_a_replay_that_does_not_wait_for_the_write_is_found() -> None:
    device, static = Device(), torch.zeros(4)
    reads = device.capture(static=static)
    for step in range(3):
        device.wait_stream(SIDE, MAIN)
        with device.stream(SIDE):
            static[:2] = step
        device.order.replaying(reads)
    assert device.found() == [(6, 7)]


def test_writes_between_two_waits_are_ordered() -> None:
    device, static = Device(), torch.zeros(4)
    reads = device.capture(static=static)
    for step in range(3):
        device.wait_stream(SIDE, MAIN)
        with device.stream(SIDE):
            static.fill_(step)
        device.wait_stream(MAIN, SIDE)
        device.order.replaying(reads)
        static.add_(1)  # on the stream of the replay
    assert device.found() == []


def test_an_event_that_is_recorded_after_the_write_in_its_block_orders_it() -> None:
    device, static = Device(), torch.zeros(4)
    reads = device.capture(static=static)
    for step in range(3):
        with device.stream(SIDE):
            static.fill_(step)
            device.order.look()
            device.order.refills.recorded("written", SIDE)
        device.order.look()
        device.order.refills.waited(MAIN, "written")
        device.order.replaying(reads)
        device.synchronize()
    assert device.found() == []


def test_the_writes_of_a_capture_ran_nothing() -> None:
    device, static = Device(), torch.zeros(4)
    reads = device.capture(static=static)
    static.add_(1)
    device.order.replaying(reads)
    with device.stream(SIDE):
        static.add_(1)
        device.order.settle()
    device.order.replaying(reads)
    assert device.found() == []


def test_a_change_of_the_stream_that_is_not_seen_blames_nobody() -> None:
    device, static = Device(), torch.zeros(4)
    reads = device.capture(static=static)
    static.add_(1)
    device.order.replaying(reads)
    device.wait_stream(SIDE, MAIN)
    device.current = SIDE
    static.add_(1)
    device.order.replaying(reads)
    assert device.found() == []


@pytest.fixture
def pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.Tensor, "is_pinned", lambda self: True)


def test_pinned_memory_is_written_again_only_after_a_wait_for_the_replay(pinned: None) -> None:
    device, host, calm = Device(), torch.zeros(4), torch.zeros(4)
    reads = device.capture(host=host), device.capture(calm=calm)
    for step in range(3):
        host.fill_(step)
        device.order.replaying(reads[0])
    for step in range(3):
        calm.fill_(step)
        device.order.replaying(reads[1])
        device.synchronize()
    assert device.found() == [(4, 5)]


def test_several_threads_are_not_told_apart() -> None:
    device, static = Device(), torch.zeros(4)
    reads = device.capture(static=static)
    static.add_(1)
    device.order.replaying(reads)

    def other() -> None:
        with device.stream(SIDE):
            static.add_(1)

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    device.order.replaying(reads)
    assert device.found() == [] and device.order.problem is not None and "several threads" in device.order.problem


def test_memory_that_has_died_leaves_nothing_to_what_comes_in_its_place() -> None:
    device = Device()

    def serve() -> int:
        static = torch.zeros(4)
        (number,) = device.capture(static=static)
        with device.stream(SIDE):
            static.add_(1)
        return number

    number = serve()
    device.order.look()
    device.order.replaying([number])
    assert device.found() == [] and device.order._inputs == {}


def test_inference_tensors_have_no_versions() -> None:
    device = Device()
    with torch.inference_mode():
        static = torch.zeros(4)
        names = {1: [Name("static", None, (), weakref.ref(static))]}
        device.order.captured(names)
        static.add_(1)
        device.order.replaying([1])
    assert device.found() == []


def test_a_fault_ends_the_watch_of_the_order_alone() -> None:
    device = Device()
    device.order.quietly(lambda: [][0])
    assert device.order.problem is not None and "IndexError" in device.order.problem


@pytest.mark.parametrize("waits", [True, False])
def test_host_memory_that_numpy_writes_has_to_wait_for_the_last_replay(waits: bool) -> None:
    device, host = Device(), torch.zeros(4)
    device.order.captured({}, [Touch(host.untyped_storage(), "read", True, "")])
    for step in range(1, 4):
        host.numpy()[:] = step
        rows = host.numpy()
        rows[:] = -step
        device.order.replaying([int(host.untyped_storage()._cdata)])
        if waits:
            device.synchronize()
    assert device.found() == ([] if waits else [(7, 8)])


def test_host_memory_that_the_device_writes_too_is_left_alone() -> None:
    device, host = Device(), torch.zeros(4)
    storage = host.untyped_storage()
    device.order.captured({}, [Touch(storage, "read", True, "")])
    device.order.captured({}, [Touch(storage, "write", True, "")])
    for step in range(1, 4):
        host.numpy()[:] = step
        device.order.replaying([int(storage._cdata)])
    assert device.found() == []


def test_halves_of_host_memory_are_filled_while_the_other_half_is_copied() -> None:
    device, host = Device(), torch.zeros(2, 4)
    storage, graphs = host.untyped_storage(), [Graph(), Graph()]
    for row, graph in zip(host, graphs, strict=True):
        copy = GraphNode("memcpy", "", (row.nbytes, 1, 1), (row.data_ptr(), 64))
        device.order.captured({}, [Touch(storage, "read", True, "")], [copy], graph)
    for step in range(1, 6):
        if step > 2:  # wait for the replay before the last one
            device.order.look()
            device.order.refills.host_waited(event=step % 2)
        host.numpy()[step % 2] = step
        device.order.replaying([int(storage._cdata)], graphs[step % 2])
        device.order.refills.recorded(step % 2, MAIN)
    assert device.found() == []
    host.numpy()[0] = 7
    device.order.replaying([int(storage._cdata)], graphs[1])
    assert device.found() == [(15, 11)]


def test_versions_of_memory_of_which_a_graph_uses_a_part_are_not_compared() -> None:
    device, both = Device(), torch.zeros(2, 4)
    reads = device.capture(both=both)
    for row in both:
        part = Touch(OnDevice(both.untyped_storage()), "both", True, "")  # type: ignore[arg-type]
        kernel = GraphNode("kernel", "add", words=(row.data_ptr(), 64))
        device.order.captured({}, [part], [kernel])
        for step in range(3):
            with device.stream(SIDE):
                both[1] = step
            device.order.replaying(reads)
        assert bool(device.found()) is bool(device.order._inputs) is (row.data_ptr() == both.data_ptr())
        device.order.refills._found.clear()
