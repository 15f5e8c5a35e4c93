"""Threads that begin while the simulated device is played: their work is seen, on streams of their own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import torch

from graphsafe.capture.device.sim import SimDevice


def in_thread(work: Callable[[], object]) -> list[object]:
    found: list[object] = []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()
    thread.join()
    return found


def test_work_of_a_thread_is_captured_on_the_stream_that_it_is_handed(sim: SimDevice) -> None:
    with sim.entered(), ThreadPoolExecutor(1) as pool:
        x, out = torch.ones(4, device="cuda:1"), torch.zeros(4, device="cuda:1")

        def work(stream: torch.cuda.Stream) -> None:
            with torch.cuda.stream(stream):
                out.copy_(x * 2)

        recording = sim.record(lambda: pool.submit(work, torch.cuda.current_stream()).result())
        assert recording.nodes() == {"kernel": 1, "memcpy": 1} and recording.escaped() == ()
        sim.store(x, torch.full((4,), 3.0))
        recording.replay()
        assert sim.to_host(out).tolist() == [6.0] * 4


def test_work_of_a_thread_on_its_default_stream_is_missing_from_the_graph(sim: SimDevice) -> None:
    with sim.entered():
        x = torch.ones(4, device="cuda:1")
        recording = sim.record(lambda: (in_thread(lambda: x * 2), x + 1))
        assert recording.nodes() == {"kernel": 1}
        assert [event.op for event in recording.escaped()] == ["aten::mul"]


def test_a_thread_with_a_run_of_its_own_makes_tensors_on_the_device(sim: SimDevice) -> None:
    class Worker(threading.Thread):
        def run(self) -> None:
            self.made = torch.ones(4, device="cuda")

    with sim.entered():
        worker = Worker()
        worker.start()
        worker.join()
        assert worker.made.device == torch.device("cuda", 1)
        assert "run" not in vars(worker)


def test_a_thread_has_a_device_and_a_stream_of_its_own(sim: SimDevice) -> None:
    with sim.entered():
        torch.cuda.set_device(0)
        assert in_thread(torch.cuda.current_device) == [1]  # as the process began
        assert in_thread(lambda: torch.cuda.set_device(0)) == [None]
        with torch.cuda.stream(torch.cuda.Stream(1)):
            assert in_thread(lambda: torch.cuda.current_stream() == torch.cuda.default_stream()) == [True]


def test_a_thread_that_outlives_the_device_works_on_the_cpu(sim: SimDevice) -> None:
    ended, found = threading.Event(), []

    def work() -> None:
        ended.wait()
        found.append((torch.ones(2) + 1).tolist())

    with sim.entered():
        thread = threading.Thread(target=work)
        thread.start()
    ended.set()
    thread.join()
    assert found == [[2.0, 2.0]]
