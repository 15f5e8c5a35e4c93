"""Shapes mode remembers the form of results, and gives each call its own."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from graphsafe.capture.device.sim.shapes import Shapes  # noqa: E402
from graphsafe.capture.device.valueless import drop_values, is_valueless  # noqa: E402


def unknown(*size: int) -> Any:
    tensor = torch.empty(size, device="meta")
    drop_values(tensor)
    return tensor


def test_equal_calls_give_equal_forms_in_memory_of_their_own() -> None:
    shapes, x = Shapes(), unknown(3, 4)
    first, second = (shapes.perform(torch.ops.aten.mul.Tensor, (x, 2.0), {}, 0) for _ in range(2))
    assert first.shape == second.shape == (3, 4)
    assert is_valueless(first)
    assert is_valueless(second)
    assert first.untyped_storage()._cdata != second.untyped_storage()._cdata


def test_a_result_over_the_memory_of_an_argument_stays_there() -> None:
    shapes = Shapes()
    for _ in range(2):
        x = unknown(3, 4)
        flat = shapes.perform(torch.ops.aten._unsafe_view.default, (x, [12]), {}, 0)
        assert flat.untyped_storage()._cdata == x.untyped_storage()._cdata


def test_numbers_of_another_type_are_another_call() -> None:
    shapes, x = Shapes(), torch.empty(3, dtype=torch.int64, device="meta")
    drop_values(x)
    results = [shapes.perform(torch.ops.aten.mul.Tensor, (x, by), {}, 0).dtype for by in (1, 1.0, 1)]
    assert results == [torch.int64, torch.float32, torch.int64]
