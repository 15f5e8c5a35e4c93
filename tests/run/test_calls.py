"""Which call did the work of a capture, and which later calls are the same step without a graph. It needs no GPU: a
capture is a block in which operations are counted."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import nn

from graphsafe.run.child.calls import CalledSteps
from graphsafe.run.child.steps import Steps
from tests.run.test_silent import Replays

pytestmark = pytest.mark.skipif(sys.version_info < (3, 12), reason="calls are told from Python 3.12 on")


COUNTING = """
from torch.utils._python_dispatch import TorchDispatchMode

class Counting(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.operations = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.operations += 1
        return func(*args, **(kwargs or {}))
"""
names: dict[str, Any] = {}
exec(compile(COUNTING, "<counting>", "exec"), names)  # so that its calls are not the user's


class Watched:
    def __init__(self) -> None:
        self.steps = Steps(Replays(0, ()))
        self.mode = names["Counting"]()
        self.calls = CalledSteps(self.steps, lambda: int(self.mode.operations))
        self.graphs = 0

    @contextmanager
    def capture(self) -> Iterator[None]:
        self.mode.operations = 0
        with self.mode:
            self.calls.begin()
            yield
            self.steps.captured(self.calls.end(), self.graphs)
        self.graphs += 1

    def sizes(self) -> list[tuple[dict[str, int], list[int]]]:
        """The sizes that ran without a graph, and those captured, of each step."""
        return [(fact.sizes, [int(size) for size in fact.captured]) for fact in self.steps.facts()]


@pytest.fixture
def watched() -> Iterator[Watched]:
    watched = Watched()
    yield watched
    assert watched.calls.problem is None
    watched.calls.close()


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))


def test_calls_of_a_captured_module_at_other_sizes_are_counted_with_their_line(watched: Watched) -> None:
    model, other = mlp(), mlp()

    def run(size: int) -> torch.Tensor:
        with torch.no_grad():
            return model(torch.zeros(size, 8))

    for size in (1, 2, 4):
        x = torch.zeros(size, 8)
        run(size)  # the warm-up is no step without a graph, since its size is captured next
        with torch.no_grad(), watched.capture():
            model(x)
    for size in (3, 6, 6, 2):
        run(size)
        with torch.no_grad():
            other(torch.zeros(size, 8))
    assert watched.sizes() == [({"3": 1, "6": 2}, [1, 2, 4])]
    (fact,) = watched.steps.facts()
    code = run.__code__
    assert [(one.function.rpartition(".")[2], one.line) for one in fact.place] == [("run", code.co_firstlineno + 2)]
    assert fact.captured == {"1": [0], "2": [1], "4": [2]}


def test_a_function_is_known_by_its_closure(watched: Watched) -> None:
    def made(weight: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
        def step(x: torch.Tensor) -> torch.Tensor:
            return torch.relu(x @ weight)

        return step

    one, other = made(torch.ones(8, 8)), made(torch.ones(8, 8))
    with watched.capture():
        one(torch.zeros(2, 8))
    one(torch.zeros(5, 8))
    other(torch.zeros(7, 8))
    assert watched.sizes() == [({"5": 1}, [2])]


class Runner:
    def __init__(self) -> None:
        self.weight = torch.ones(8, 8)

    def step(self, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        return torch.relu(inputs["x"] @ self.weight)


def test_a_method_is_known_by_its_object(watched: Watched) -> None:
    target, draft = Runner(), Runner()
    with watched.capture():
        target.step({"x": torch.zeros(2, 8)})
    for runner in (draft, target):
        runner.step({"x": torch.zeros(3, 8)})
    assert watched.sizes() == [({"3": 1}, [2])]


def pad(x: torch.Tensor, size: int) -> torch.Tensor:
    return torch.cat([x, x.new_zeros(size - len(x), 8)]) if len(x) < size else x


def test_a_helper_beside_the_replays_is_no_step(watched: Watched) -> None:
    """It did less than half of the capture's work."""
    model = mlp()
    with torch.no_grad(), watched.capture():
        model(pad(torch.zeros(3, 8), 4))
    for size in (1, 2, 3):
        pad(torch.zeros(size, 8), 4)
    assert watched.sizes() == [({}, [4])]


def test_a_prompt_and_an_evaluation_are_other_steps(watched: Watched) -> None:
    model = mlp()
    for size in (1, 2):
        with watched.capture():
            model(torch.zeros(size, 1, 8))
    model(torch.zeros(1, 17, 8))  # two dimensions differ from a captured step, or one that never varied
    with torch.no_grad():
        model(torch.zeros(5, 1, 8))
    assert watched.sizes() == [({}, [1, 2])]
    model(torch.zeros(3, 1, 8))
    assert watched.sizes() == [({"3": 1}, [1, 2])]


def test_work_without_a_call_and_calls_without_tensors_are_not_counted(watched: Watched) -> None:
    x = torch.zeros(2, 8)

    def step() -> torch.Tensor:
        return x * 2

    with watched.capture():
        x.add_(1)
    with watched.capture():
        step()
    step()
    assert watched.sizes() == []


def test_objects_may_be_freed_and_their_places_taken(watched: Watched) -> None:
    with watched.capture():
        Runner().step({"x": torch.zeros(2, 8)})
    for _ in range(5):
        Runner().step({"x": torch.zeros(3, 8)})
    assert watched.sizes() == [({}, [2])]


def test_a_compiled_step_is_counted_and_not_compiled_again(watched: Watched) -> None:
    compiled: list[Any] = []

    def backend(graph: Any, inputs: Any) -> Any:
        def kernel(*args: Any) -> Any:
            watched.mode.operations += 1
            return graph.forward(*args)

        compiled.append(graph)
        return kernel

    model = mlp().requires_grad_(False)
    step = torch.compile(lambda x: model(x).relu(), backend=backend, fullgraph=True, dynamic=True)
    for size in (2, 3):
        step(torch.zeros(size, 8))
    before, watched.mode.operations = len(compiled), 0
    watched.calls.begin()
    step(torch.zeros(2, 8))
    watched.steps.captured(watched.calls.end(), 0)
    step(torch.zeros(5, 8))
    assert len(compiled) == before and watched.sizes() == [({"5": 1}, [2])]


def test_a_fault_of_the_watch_does_not_reach_the_program() -> None:
    def broken() -> int:
        raise KeyError("count")

    calls = CalledSteps(Steps(Replays(0, ())), broken)
    calls.begin()
    assert Runner().step({"x": torch.zeros(2, 8)}).shape == (2, 8)
    assert calls.end() is None
    assert calls.problem is not None and "KeyError" in calls.problem
    assert sys.monitoring.get_tool(4) is None


def test_calls_in_other_threads_are_not_of_the_capture(watched: Watched) -> None:
    import threading

    model = mlp()

    def other() -> None:
        Runner().step({"x": torch.zeros(2, 8)})

    with torch.no_grad(), watched.capture():
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        model(torch.zeros(4, 8))
    assert watched.sizes() == [({}, [4])]
