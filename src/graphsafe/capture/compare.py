"""How far apart two results are; host tensors only."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import torch

UNSTABLE = 0.01
"Eager series that differ by more than this share of their largest value do not repeat: there is no floor then."
_ROUNDINGS = 256
"Nor where they differ by more than so many roundings of that value: another order of a sum explains no more."


@dataclass(frozen=True, slots=True)
class Difference:
    """`equal`: bit for bit, NaN equal to NaN. `largest`: None where no number says it (shape, dtype, NaN, infinity)."""

    equal: bool
    largest: float | None


EQUAL = Difference(True, 0.0)


def difference(left: torch.Tensor, right: torch.Tensor) -> Difference:
    import torch

    if left.shape != right.shape or left.dtype != right.dtype:
        return Difference(False, None)
    if left.numel() == 0:
        return EQUAL
    same = left == right
    if left.is_floating_point() or left.is_complex():
        same = same | (torch.isnan(left) & torch.isnan(right))
    if bool(same.all()):
        return EQUAL
    wide = torch.complex128 if left.is_complex() else torch.float64
    apart = (left[~same].to(wide) - right[~same].to(wide)).abs()
    largest = float(apart.max())
    return Difference(False, largest if math.isfinite(largest) else None)


def floor_of(series: Iterable[Mapping[str, torch.Tensor]]) -> dict[str, float | None]:
    """By name, the largest difference between any two of these results of one step; None where they do not repeat:
    integers and booleans that differ at all, floats by more than `UNSTABLE` of their size."""
    results = list(series)
    floors: dict[str, float | None] = {}
    for name in results[0]:
        values = [result.get(name) for result in results]
        floors[name] = _floor([value for value in values if value is not None]) if None not in values else None
    return floors


def _floor(values: list[torch.Tensor]) -> float | None:
    import torch

    floor = 0.0
    for index, left in enumerate(values):
        for right in values[index + 1 :]:
            apart = difference(left, right)
            if apart.equal:
                continue
            if apart.largest is None or not left.is_floating_point():
                return None
            finite = left.double()[torch.isfinite(left.double())].abs()
            share = min(UNSTABLE, _ROUNDINGS * torch.finfo(left.dtype).eps)
            if apart.largest > share * float(finite.max()):
                return None
            floor = max(floor, apart.largest)
    # Three series see only some of what chance can do: a fourth may well lie twice as far out.
    return 2 * floor
