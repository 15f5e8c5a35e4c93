"""How inputs are varied and results compared, on host tensors."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from graphsafe.capture.compare import difference, floor_of  # noqa: E402
from graphsafe.capture.vary import varied  # noqa: E402


def new(values: torch.Tensor, seed: int = 1, **options: object) -> torch.Tensor:
    return varied(values, torch.Generator().manual_seed(seed), **options)


def test_floats_stay_in_range_and_extremes_in_place() -> None:
    low = torch.finfo(torch.float16).min
    values = torch.tensor([0.5, -2.0, float("-inf"), low, float("nan"), 3.0], dtype=torch.float16)
    drawn = new(values)
    assert drawn.dtype == values.dtype
    assert drawn[2] == float("-inf") and drawn[3] == low and drawn[4].isnan()
    free = drawn[[0, 1, 5]]
    assert ((free >= -2) & (free <= 3)).all() and not free.equal(values[[0, 1, 5]])


def test_booleans_keep_their_number() -> None:
    values = torch.tensor([True, False, False, False])
    assert any(not new(values, seed).equal(values) for seed in range(5))
    assert new(values).sum() == 1


@pytest.mark.parametrize(
    "values",
    [[0, 3, 3, 9], [0, 1, 2, 3], [5, 6, 7], [-1, -1, -1], [0, 0, 0]],
    ids=["offsets", "positions", "positions later on", "padding", "zeros"],
)
def test_integers_that_leave_no_choice_are_kept(values: list[int]) -> None:
    assert new(torch.tensor(values)).tolist() == values


@pytest.mark.parametrize("values", [[2, 5, 9], [2, 5], [7, 3, 1], [3, 3, 4]])
def test_sorted_and_different_integers_are_permuted(values: list[int]) -> None:
    drawn = new(torch.tensor(values)).tolist()
    assert sorted(drawn) == sorted(values) and drawn != values


def test_other_integers_are_drawn_up_to_the_largest_and_padding_stays() -> None:
    drawn = new(torch.tensor([[7, 2, 7, 5], [1, 7, -1, -1]]))
    assert drawn[1, 2:].tolist() == [-1, -1]
    assert (drawn[drawn >= 0] <= 7).all()
    assert new(torch.tensor([4]), 3).item() <= 4


def test_a_range_that_was_asked_for_is_kept() -> None:
    drawn = new(torch.zeros(100, dtype=torch.int64), bounds=(3, 5))
    assert set(drawn.tolist()) == {3, 4, 5}


def test_equal_is_bit_for_bit_with_nan_equal_to_nan() -> None:
    values = torch.tensor([1.0, float("nan")])
    assert difference(values, values.clone()).equal
    assert difference(values, torch.tensor([1.5, float("nan")])).largest == 0.5
    assert difference(values, torch.tensor([1.0, 2.0])) == difference(values, values.double())
    assert difference(torch.ones(2), torch.ones(3)).largest is None


def test_a_floor_is_known_only_where_series_repeat() -> None:
    close = [{"x": torch.tensor([100.0])}, {"x": torch.tensor([100.001])}, {"x": torch.tensor([100.0])}]
    assert floor_of(close)["x"] == pytest.approx(0.002, rel=0.1)
    far = [{"x": torch.tensor([1.0])}, {"x": torch.tensor([2.0])}]
    assert floor_of(far)["x"] is None
    assert floor_of([{"n": torch.tensor([1])}, {"n": torch.tensor([2])}])["n"] is None
