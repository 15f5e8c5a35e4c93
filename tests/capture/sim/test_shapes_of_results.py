"""Shapes mode runs a call again by its form alone, and gives each call its own result and its own effects."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from graphsafe.capture.answers.events import CaptureFailure, StepEvent
from graphsafe.capture.device.sim import SimDevice
from graphsafe.capture.device.structures import is_valueless
from graphsafe.optable import OpTable

DEVICE = "cuda:0"


@pytest.fixture
def shapes(table: OpTable) -> Iterator[SimDevice]:
    device = SimDevice(0, table, shapes=True)
    with device.entered():
        yield device


def memory(tensor: Any) -> int:
    with torch._C.DisableTorchFunction():
        return int(tensor.untyped_storage()._cdata)


def kinds(device: SimDevice, step: Callable[[], object]) -> list[tuple[str, str]]:
    events: list[StepEvent] = []
    with device.watch(events.append):
        step()
    return [(event.kind, event.op) for event in events]


def recorded(device: SimDevice, step: Callable[[], object]) -> Any:
    recording = device.record(step)
    assert not isinstance(recording, CaptureFailure), recording
    return recording


@pytest.mark.child
def test_equal_calls_give_equal_forms_in_memory_of_their_own(shapes: SimDevice) -> None:
    x = torch.randn(3, 4, device=DEVICE)
    results = [x * 2.0 for _ in range(3)]
    assert {tuple(one.shape) for one in results} == {(3, 4)}
    assert {str(one.device) for one in results} == {DEVICE}
    assert all(is_valueless(one) for one in results)
    assert len({memory(one) for one in results}) == 3


def test_memory_is_counted_for_each_call(shapes: SimDevice) -> None:
    x = torch.randn(256, 256, device=DEVICE)
    taken = []
    for _ in range(3):
        before = shapes.memory().allocated
        y = x + 1.0
        taken.append(shapes.memory().allocated - before)
        del y
    assert taken == [256 * 256 * 4] * 3


@pytest.mark.parametrize("view", [lambda x: x.t(), lambda x: torch.ops.aten._unsafe_view(x, [12])])
def test_a_result_over_the_memory_of_an_argument_stays_there(shapes: SimDevice, view: Callable[[Any], Any]) -> None:
    for _ in range(3):
        x = torch.randn(3, 4, device=DEVICE)
        assert memory(view(x)) == memory(x)


def test_numbers_of_another_type_are_another_call(shapes: SimDevice) -> None:
    x = torch.randn(3, device=DEVICE) > 0
    assert [(x * by).dtype for by in (1, 1.0, 1)] == [torch.int64, torch.float32, torch.int64]


def test_a_call_of_the_same_form_on_another_line_is_a_node_of_its_own(shapes: SimDevice) -> None:
    x = torch.randn(3, 4, device=DEVICE)

    def step() -> Any:
        y = x * 2.0
        y = y * 2.0
        return (y * 2.0).t()

    counted = shapes.kernels(step)
    first, second = recorded(shapes, step), recorded(shapes, step)
    assert counted is not None and counted.total == 3
    assert first.nodes() == second.nodes() == {"kernel": 3}
    assert first.differences(second) == ()
    lines = [node.frames[-1].line for node in second.graph.nodes]
    assert lines == [lines[0], lines[0] + 1, lines[0] + 2]


@pytest.mark.parametrize(
    "step",
    [
        lambda x: x.sum().item(),
        lambda x: x[x > 0],
        lambda x: x.cpu(),
        lambda x: torch.zeros_like(x),
        lambda x: x.nonzero(),
    ],
    ids=["read", "mask", "copy", "allocation", "extent"],
)
def test_a_call_with_effects_has_them_each_time(shapes: SimDevice, step: Callable[[Any], object]) -> None:
    x = torch.randn(3, 4, device=DEVICE)
    first, *more = [kinds(shapes, lambda: step(x)) for _ in range(3)]
    assert first
    assert more == [first, first]


def test_random_numbers_are_drawn_each_time(shapes: SimDevice) -> None:
    x = torch.randn(3, 4, device=DEVICE)
    offsets = []
    for _ in range(3):
        torch.nn.functional.dropout(x, 0.5)
        offsets.append(shapes.random_states()["sim:0"].offset)
    assert offsets[0] < offsets[1] < offsets[2]


def test_work_beside_a_capture_is_told_each_time(shapes: SimDevice) -> None:
    x = torch.randn(3, 4, device=DEVICE)
    other = torch.cuda.Stream(torch.device(DEVICE))

    def step() -> Any:
        with torch.cuda.stream(other):
            x * 2.0
        return x * 3.0

    assert [len(recorded(shapes, step).escaped()) for _ in range(3)] == [1, 1, 1]


def test_a_value_that_was_computed_is_computed_again(shapes: SimDevice) -> None:
    positions = torch.arange(4, device=DEVICE)
    assert [(positions + 1).tolist() for _ in range(2)] == [[1, 2, 3, 4]] * 2
    positions.add_(1)
    assert (positions + 1).tolist() == [2, 3, 4, 5]
