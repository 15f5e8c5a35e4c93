"""How far apart two results are, and how far apart they may be; host tensors only."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from graphsafe.capture.bits.last_place import last_place

if TYPE_CHECKING:
    import torch

Outcome = Literal["equal", "rounding", "different"]
Against = Literal["replay", "plain eager"]

_MOST_UNITS = 256.0
"Results that differ by more units in the last place than this do not repeat: the order of a sum explains no more."
_MOST_SHARE = 0.05
"Nor do those that differ by more than this share of their largest value (in bfloat16, 256 units are the value itself)."
_MARGIN = 4.0
"A handful of runs sees only part of what chance and rounding can do: the next one may well lie further out."


@dataclass(frozen=True, slots=True)
class Difference:
    """`equal`: bit for bit, NaN equal to NaN. `largest`: None where no number says it (shape, dtype, NaN, infinity)."""

    equal: bool
    largest: float | None

    def is_beyond(self, floor: float | None) -> bool:
        """Whether it is more than chance explains; what varies without a bound (None) says nothing."""
        return not self.equal and floor is not None and (self.largest is None or self.largest > floor)


EQUAL = Difference(True, 0.0)
INCOMPARABLE = Difference(False, None)


def difference(left: torch.Tensor, right: torch.Tensor) -> Difference:
    import torch

    if left.shape != right.shape or left.dtype != right.dtype:
        return INCOMPARABLE
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


@dataclass(slots=True)
class Spread:
    """How far runs lie apart that differ by chance or by rounding alone, pooled over all results, steps and runs.

    It is pooled because chance is not seen every time: float atomics leave three runs of one output equal in a third of
    the cases. Results of different sizes and dtypes are pooled in units in the last place of their largest value.
    """

    units: float = 0.0
    unbounded: set[str] = field(default_factory=set)
    "Results that rounding does not explain: other integers, other shapes, other host values, or far too large a step."

    def add(self, name: str, left: torch.Tensor | None, right: torch.Tensor | None) -> None:
        import torch

        if left is None or right is None:
            self.unbounded.add(name)
            return
        apart = difference(left, right)
        if apart.equal:
            return
        unit = last_place(left)
        if apart.largest is None or not unit:
            self.unbounded.add(name)
            return
        units = apart.largest / unit
        if units > _MOST_UNITS or units * torch.finfo(left.dtype).eps > _MOST_SHARE:
            self.unbounded.add(name)
        else:
            self.units = max(self.units, units)

    def bound(self, name: str, values: torch.Tensor) -> float | None:
        """How far a further run of this result may lie from `values`; None where nothing bounds it."""
        if name in self.unbounded:
            return None
        return _MARGIN * self.units * (last_place(values) or 0.0)

    def to_json(self) -> dict[str, Any]:
        return {"units": self.units, "unbounded": sorted(self.unbounded)}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Spread:
        return Spread(data["units"], set(data["unbounded"]))


_WORSE: tuple[Outcome | None, ...] = ("equal", "rounding", None, "different")


@dataclass(slots=True)
class Check:
    """One output or piece of state, over all steps at which it was compared; the worst of them is kept.

    `result` is null where nothing bounds the difference. `floor` is how far eager runs of the step lie apart by chance,
    `rounding` how far one unit in the last place of the inputs and parameters moves them, where that was measured.
    """

    name: str
    result: Outcome | None = "equal"
    equal: bool = True
    max_abs: float | None = 0.0
    floor: float | None = 0.0
    rounding: float | None = None
    replay: int | None = None
    compares: Against = "replay"
    """`replay`: replays with the reference; `plain eager`: the reference, which takes the path of captures, with plain
    eager steps."""

    def add(self, replay: int, apart: Difference, floor: float | None, rounding: float | None = None) -> None:
        if apart.equal:
            return
        result = _outcome(apart, floor, rounding)
        rank, known = _WORSE.index(result), _WORSE.index(self.result)
        if rank > known or (rank == known and (apart.largest or 0.0) > (self.max_abs or 0.0)):
            self.result, self.equal, self.replay = result, False, replay
            self.max_abs, self.floor, self.rounding = apart.largest, floor, rounding

    def as_data(self) -> dict[str, Any]:
        return asdict(self)


def _outcome(apart: Difference, floor: float | None, rounding: float | None) -> Outcome | None:
    if floor is None and rounding is None:
        return None
    if apart.largest is not None and apart.largest <= max(floor or 0.0, rounding or 0.0):
        return "rounding"
    return None if floor is None else "different"
