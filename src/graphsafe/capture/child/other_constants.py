"""Proposes other constants for inputs whose elements are all alike: a scale, a flag, a step size, one token.

An input of equal elements cannot be redrawn within the range seen, because the range is one point. All functions work
on host copies.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch

_FAR_FLOATS = (0.0, 1.0, -1.0, 10.0, -1000.0, 1000.0)
_FAR_INTEGERS = (0, 1, 2, 100, -1)


def constants(
    values: torch.Tensor, generator: torch.Generator, bounds: tuple[float | None, float | None], far: bool
) -> Iterator[torch.Tensor]:
    """Yield tensors of one repeated value each, if all elements of `values` are alike or if `far` is set.

    The nearest constant comes first. `bounds` are the values that the user allows (`--input`), inclusive; constants
    outside of `bounds`, or outside of the dtype's range, are left out.
    """
    flat = values.flatten()
    if flat.is_complex():
        return
    alike = bool((flat == flat[0]).all())
    if not alike and not far:
        return
    if values.dtype == torch.bool:
        proposed: list[float] = [0.0, 1.0] if not alike else [float(not bool(flat[0]))]
    elif not values.is_floating_point():
        proposed = [*(_near_integers(int(flat[0])) if alike else ()), *(_FAR_INTEGERS if far else ())]
    elif math.isfinite(float(flat[0])) and abs(float(flat[0])) < torch.finfo(values.dtype).max:
        near = [_near_float(float(flat[0]), float(torch.rand((), generator=generator)))] if alike else []
        proposed = [*near, *(_FAR_FLOATS if far else ())]
    else:
        return
    for value in proposed:
        if _allowed(value, bounds) and _holds(values.dtype, value):
            yield torch.full_like(values, value)


def _near_float(value: float, draw: float) -> float:
    """Return a constant at most 40 % away, on either side; a fraction stays between 0 and 1 (0.7 becomes 0.9).

    `draw` is in [0, 1).
    """
    if value == 0.0:
        return 0.1 + 0.9 * draw
    factor = 0.6 + 0.3 * draw if draw < 0.5 else 0.9 + 0.4 * draw
    new = value * factor
    return (1.0 + value) / 2.0 if 0.0 < value < 1.0 <= new else new


def _near_integers(value: int) -> tuple[int, ...]:
    """Return the nearest integers, or none for a negative value, which is padding."""
    return (value - 1, value // 2, value + 1) if value > 0 else (1,) if value == 0 else ()


def _allowed(value: float, bounds: tuple[float | None, float | None]) -> bool:
    low, high = bounds
    return (low is None or value >= low) and (high is None or value <= high)


def _holds(dtype: torch.dtype, value: float) -> bool:
    if dtype == torch.bool:
        return True
    limits = torch.finfo(dtype) if dtype.is_floating_point else torch.iinfo(dtype)
    return bool(limits.min <= value <= limits.max)
