"""Measures how far two results differ, and how far they may differ. All tensors are on the host."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import torch

from graphsafe.capture.device.modes import outside_modes
from graphsafe.report.probes.replay import Check, Outcome

_MOST_UNITS = 256.0
"""If repeated results differ by more units in the last place than this, they are not repeatable: no order of summation
explains such a difference."""
_MOST_SHARE = 0.05
"""If repeated results differ by more than this share of their largest value, they are not repeatable. (256 units of
bfloat16 are as large as the value itself.)"""
_MARGIN = 4.0
"""A further run may differ by this many times the largest difference seen, because a few runs show only some of the
differences that chance and rounding can cause."""

_FILL = 256.0
"""If several elements have the same value, and it is larger than all other values by this factor, it is taken for the
filling of a mask."""
_LONE_FILL = 2.0**20
"The same factor for a value that only one element has."

_WORSE: tuple[Outcome | None, ...] = ("equal", "rounding", None, "different")


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference of two results.

    `equal` means equal bit for bit, with NaN equal to NaN. `largest` is None if no number expresses the difference (of
    shape, dtype, NaN or infinity). `size` is the magnitude of the largest element that differs.
    """

    equal: bool
    largest: float | None
    size: float = 0.0

    def exceeds(self, floor: float | None) -> bool:
        """Return whether the difference exceeds `floor`, the largest difference that chance explains. Return False if
        `floor` is None."""
        return not self.equal and floor is not None and (self.largest is None or self.largest > floor)


EQUAL = Difference(True, 0.0)
INCOMPARABLE = Difference(False, None)


def difference(left: torch.Tensor | None, right: torch.Tensor | None) -> Difference:
    """Compare two results. A missing result (None) cannot be compared."""
    if left is None or right is None:
        return INCOMPARABLE
    with outside_modes():
        if left.shape != right.shape or left.dtype != right.dtype:
            return INCOMPARABLE
        if left.numel() == 0:
            return EQUAL
        same = same_elements(left, right)
        if bool(same.all()):
            return EQUAL
        wide = torch.complex128 if left.is_complex() else torch.float64
        ours, theirs = left[~same].to(wide), right[~same].to(wide)
        largest = float((ours - theirs).abs().max())
        if not math.isfinite(largest):
            return INCOMPARABLE
        return Difference(False, largest, float(torch.maximum(ours.abs(), theirs.abs()).max()))


def same_elements(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Return which elements are equal, with NaN equal to NaN."""
    same = left == right
    is_float = left.is_floating_point() or left.is_complex()
    return same | (left.isnan() & right.isnan()) if is_float else same


@dataclass(slots=True)
class Spread:
    """The size of differences that chance or rounding alone causes between runs, pooled over all results, steps and
    runs.

    The differences are pooled because a few runs may agree by luck: with float atomics, three runs give the same output
    in a third of the cases. Results have different sizes and dtypes, so differences are counted in units in the last
    place of the largest value. A value that fills masked elements, such as -1e9, is not taken as the largest value
    unless it differs itself: one unit in the last place of -1e9 is 119, which would hide any difference of logits.
    """

    units: float = 0.0
    unbounded: set[str] = field(default_factory=set)
    """Results with differences that rounding cannot explain: integers, shapes, host values, or floats that are far
    apart."""

    def add(self, name: str, left: torch.Tensor | None, right: torch.Tensor | None) -> None:
        apart = difference(left, right)
        if apart.equal:
            return
        unit = 0.0 if left is None else _unit(left, apart)
        if left is None or apart.largest is None or not unit:
            self.unbounded.add(name)
            return
        units = apart.largest / unit
        if units > _MOST_UNITS or units * torch.finfo(left.dtype).eps > _MOST_SHARE:
            self.unbounded.add(name)
        else:
            self.units = max(self.units, units)

    def bound(self, name: str, values: torch.Tensor | None, apart: Difference) -> float | None:
        """Return how far this result may differ from `values` in a further run; None if there is no bound. `apart` is
        the difference to judge."""
        if name in self.unbounded:
            return None
        if values is None or not self.units:
            return 0.0
        # If small elements differ by chance, larger elements may differ too, by one unit of their own size.
        return _MARGIN * max(self.units, 1.0) * _unit(values, apart)

    def is_exceeded(self, name: str, left: torch.Tensor | None, right: torch.Tensor | None) -> bool:
        """Return whether two results differ by more than chance explains."""
        apart = difference(left, right)
        return apart.exceeds(self.bound(name, left, apart))


def _unit(values: torch.Tensor, apart: Difference) -> float:
    """Return one unit in the last place of the largest value, or of the largest element that differs; 0.0 for dtypes
    that do not round."""
    with outside_modes():
        if not (values.is_floating_point() or values.is_complex()):
            return 0.0
        return torch.finfo(values.dtype).eps * max(apart.size, _largest_result(values.abs().double()))


def _largest_result(sizes: torch.Tensor) -> float:
    """Return the largest finite size. A value that fills masked elements is left out: such a value is far larger than
    all others."""
    finite = sizes[torch.isfinite(sizes)]
    largest = float(finite.max()) if finite.numel() else 0.0
    others = finite[finite < largest]
    second = float(others.max()) if others.numel() else 0.0
    is_repeated = finite.numel() - others.numel() > 1
    return second if largest > (_FILL if is_repeated else _LONE_FILL) * second > 0.0 else largest


def worse_check(
    check: Check, replay: int, apart: Difference, floor: float | None, rounding: float | None = None
) -> Check:
    """Return the check, updated with one more comparison. A check keeps only its worst comparison."""
    if apart.equal:
        return check
    result = _outcome(apart, floor, rounding)
    rank, known = _WORSE.index(result), _WORSE.index(check.result)
    if rank < known or (rank == known and (apart.largest or 0.0) <= (check.max_abs or 0.0)):
        return check
    return replace(
        check, result=result, equal=False, replay=replay, max_abs=apart.largest, floor=floor, rounding=rounding
    )


def incomparable_check(name: str) -> Check:
    return Check(name, None, False, None, None)


def _outcome(apart: Difference, floor: float | None, rounding: float | None) -> Outcome | None:
    if floor is None and rounding is None:
        return None
    if apart.largest is not None and apart.largest <= max(floor or 0.0, rounding or 0.0):
        return "rounding"
    return None if floor is None else "different"
