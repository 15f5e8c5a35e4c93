"""How inputs are varied and results compared, on host tensors."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")


from graphsafe.capture.child.compare import EQUAL, Difference, Spread, difference, worse_check  # noqa: E402
from graphsafe.capture.child.vary import proposals  # noqa: E402
from graphsafe.capture.device.bits import nudge  # noqa: E402
from graphsafe.report.probes.replay import Check  # noqa: E402


def proposed(values: torch.Tensor, seed: int = 1, **options: object) -> list[torch.Tensor]:
    return list(proposals(values, torch.Generator().manual_seed(seed), **options))


def new(values: torch.Tensor, seed: int = 1, **options: object) -> torch.Tensor:
    return proposed(values, seed, **options)[0]


def test_floats_stay_in_range_and_extremes_in_place() -> None:
    low = torch.finfo(torch.float16).min
    values = torch.tensor([0.5, -2.0, float("-inf"), low, float("nan"), 3.0], dtype=torch.float16)
    drawn = new(values)
    assert drawn.dtype == values.dtype
    assert drawn[2] == float("-inf") and drawn[3] == low and drawn[4].isnan()
    free = drawn[[0, 1, 5]]
    assert ((free >= -2) & (free <= 3)).all() and not free.equal(values[[0, 1, 5]])


def test_floats_are_at_last_drawn_from_the_ends_of_their_range() -> None:
    first, *others = proposed(torch.tensor([0.5, -2.0, 3.0, 1.0]))
    assert not set(first.tolist()) <= {-2.0, 3.0} and len(others) > 1
    assert all(set(drawn.tolist()) <= {-2.0, 3.0} for drawn in others)


def test_booleans_keep_their_number() -> None:
    values = torch.tensor([True, False, False, False])
    assert any(not new(values, seed).equal(values) for seed in range(5))
    assert new(values).sum() == 1


@pytest.mark.parametrize("values", [[-1, -1, -1], []], ids=["padding", "nothing"])
def test_integers_that_leave_no_choice_have_no_proposal(values: list[int]) -> None:
    assert proposed(torch.tensor(values, dtype=torch.int64)) == []


def test_offsets_keep_their_ends_and_their_order_first_of_all() -> None:
    first, *others = (drawn.tolist() for drawn in proposed(torch.tensor([0, 3, 7, 12]), seed=3))
    assert first == sorted(first) and (first[0], first[-1]) == (0, 12) and first != [0, 3, 7, 12]
    assert any(set(drawn) <= {0, 3, 7, 12} for drawn in others)


def test_a_window_of_positions_begins_earlier_and_one_from_zero_is_permuted() -> None:
    later = new(torch.tensor([5, 6, 7])).tolist()
    assert later[0] in range(5) and later == [later[0] + step for step in range(3)]
    assert sorted(new(torch.arange(6)).tolist()) == list(range(6))


@pytest.mark.parametrize("values", [[7, 3, 1], [12, 4, 8, 0]])
def test_different_integers_are_permuted(values: list[int]) -> None:
    drawn = new(torch.tensor(values)).tolist()
    assert sorted(drawn) == sorted(values) and drawn != values


@pytest.mark.parametrize("values", [[0, 3, 3, 9], [5, 6, 7], [7, 3, 1], [4, 4, 2], [True, False], [0.5, 2.0]])
def test_every_proposal_is_new_and_of_the_same_kind(values: list[float]) -> None:
    given = torch.tensor(values)
    for drawn in proposed(given):
        assert drawn.dtype == given.dtype and drawn.shape == given.shape and not drawn.equal(given)


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


def spread(left: torch.Tensor, right: torch.Tensor) -> Spread:
    found = Spread()
    found.add("x", left, right)
    return found


def test_what_chance_does_to_one_output_bounds_all_of_them_by_their_size() -> None:
    found = spread(torch.tensor([100.0]), torch.tensor([100.00002]))
    assert found.bound("y", torch.tensor([1.0]), EQUAL) == pytest.approx(9.2e-7, rel=0.1)
    assert found.bound("y", torch.tensor([1, 2]), EQUAL) == 0.0


def test_chance_in_small_elements_allows_a_unit_in_the_largest_one() -> None:
    values = torch.tensor([1.0, 1e-3])
    found = spread(values, torch.tensor([1.0, 1.0000002e-3]))
    assert torch.finfo(torch.float32).eps <= (found.bound("y", values, EQUAL) or 0.0) < 1e-6


@pytest.mark.parametrize("fill", [-1e9, -1e4, torch.finfo(torch.float32).min], ids=["-1e9", "-1e4", "lowest"])
def test_the_value_of_masked_places_hides_no_difference(fill: float) -> None:
    found = Spread(units=2.0)
    logits = torch.tensor([fill, 3.0, -2.0, fill])
    assert found.is_exceeded("y", logits, torch.tensor([fill, 3.001, -2.0, fill]))
    assert found.is_exceeded("y", logits, torch.tensor([3.0, 3.0, -2.0, fill]))
    assert not found.is_exceeded("y", logits, torch.tensor([fill, 3.0000002, -2.0, fill]))


def test_a_large_element_may_differ_by_a_unit_of_its_own() -> None:
    found = Spread(units=1.0)
    assert not found.is_exceeded("y", torch.tensor([1e6, 1.0]), torch.tensor([1e6 + 0.0625, 1.0]))
    assert found.is_exceeded("y", torch.tensor([1e6, 1e6, 1.0]), torch.tensor([1e6, 1e6, 1.001]))


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (torch.tensor([1.0]), torch.tensor([2.0])),
        (torch.tensor([1]), torch.tensor([2])),
        (torch.tensor([1.0]), torch.tensor([float("nan")])),
        (torch.ones(2), torch.ones(3)),
    ],
    ids=["far apart", "integers", "NaN", "another shape"],
)
def test_what_rounding_does_not_explain_has_no_bound(left: torch.Tensor, right: torch.Tensor) -> None:
    found = spread(left, right)
    assert found.bound("x", left, EQUAL) is None
    assert found.bound("another", torch.tensor([1.0]), EQUAL) == 0.0


def test_a_check_keeps_the_worst_of_its_comparisons() -> None:
    check = Check("x")
    check = worse_check(check, 1, Difference(False, 1e-7), floor=2e-7)
    assert (check.result, check.equal, check.replay) == ("rounding", False, 1)
    check = worse_check(check, 2, Difference(False, 0.5), floor=None)
    assert check.result is None
    check = worse_check(check, 3, Difference(False, 0.5), floor=2e-7, rounding=0.1)
    assert (check.result, check.replay, check.max_abs) == ("different", 3, 0.5)
    check = worse_check(check, 4, Difference(False, 1e-7), floor=2e-7)
    assert (check.result, check.replay) == ("different", 3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.complex64])
def test_a_nudge_is_one_unit_in_the_last_place(dtype: torch.dtype) -> None:
    values = torch.tensor([1.0, -1.5, 0.0, 3.0]).to(dtype)
    moved = values.clone()
    nudge(moved, up=True)
    far = (moved - values).abs().double()
    assert far[2] == 0
    assert (far[[0, 1, 3]] > 0).all() and (far <= 2 * torch.finfo(dtype).eps).all()


def test_integers_and_infinities_are_not_nudged() -> None:
    for values in (torch.tensor([1, 2]), torch.tensor([float("inf"), float("-inf")]), torch.tensor([True])):
        moved = values.clone()
        nudge(moved, up=True)
        assert moved.equal(values)
