"""Draws new values for a step's inputs, and for parameters that are zero. Each new value is legal for the kind of its
input.

Floats are redrawn within the finite range seen; infinities, NaN and the dtype's extremes (used in masks) stay in place.
Booleans are permuted. Integers are redrawn from 0 to the largest seen; negative integers (padding) stay in place.
Integers that are in order, or all different (offsets, positions, slots, block tables), have a meaning only as a group.
For such integers there are proposals of several kinds, and the caller finds out which proposal the step accepts. An
input whose elements are all equal (a scale, a flag, a scheduler's sigma) gets another constant near the old one. An
input on the host also gets constants far from the old one, because Python may compare it with a threshold. All
functions work on copies on the host.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterator
from itertools import chain

import torch

from graphsafe.capture.child.compare import same_elements
from graphsafe.capture.child.state import reachable_state
from graphsafe.capture.child.targets import Subject
from graphsafe.capture.device.modes import outside_modes
from graphsafe.capture.device.protocol import Device

Bounds = tuple["float | None", "float | None"]
"The range that the user allows (`--input`), both ends included."
_FAR_FLOATS = (0.0, 1.0, -1.0, 10.0, -1000.0, 1000.0)
_FAR_INTEGERS = (0, 1, 2, 100, -1)
_CONTRASTS = 3
"""The last proposals for floats are this many tensors whose values come from the ends of the range seen. Such tensors
are needed because a sampler often draws the same tokens if the logits are few and are redrawn within the range."""


def constants(values: torch.Tensor, generator: torch.Generator, bounds: Bounds, far: bool) -> Iterator[torch.Tensor]:
    """Yield tensors filled with one constant each, if all elements of `values` are equal or if `far` is set.

    An input of equal elements cannot be redrawn within the range seen, because that range is one point. The nearest
    constant comes first. Constants outside of `bounds` or of the dtype's range are left out.
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
    low, high = bounds
    for value in proposed:
        is_allowed = (low is None or value >= low) and (high is None or value <= high)
        if is_allowed and _holds(values.dtype, value):
            yield torch.full_like(values, value)


def _near_float(value: float, draw: float) -> float:
    """Return a constant that is at most 40 % larger or smaller. Zero becomes a constant from 0.1 to 1, and a fraction
    stays between 0 and 1 (0.7 becomes 0.9). `draw` is in [0, 1)."""
    if value == 0.0:
        return 0.1 + 0.9 * draw
    factor = 0.6 + 0.3 * draw if draw < 0.5 else 0.9 + 0.4 * draw
    new = value * factor
    return (1.0 + value) / 2.0 if 0.0 < value < 1.0 <= new else new


def _near_integers(value: int) -> tuple[int, ...]:
    """Return the nearest integers; none for a negative value, because negative integers are padding."""
    return (value - 1, value // 2, value + 1) if value > 0 else (1,) if value == 0 else ()


def _holds(dtype: torch.dtype, value: float) -> bool:
    if dtype == torch.bool:
        return True
    limits = torch.finfo(dtype) if dtype.is_floating_point else torch.iinfo(dtype)
    return bool(limits.min <= value <= limits.max)


def generator_for(name: str) -> torch.Generator:
    """Return a generator on the host that draws the same numbers for the same name in every process."""
    return torch.Generator().manual_seed(zlib.crc32(name.encode()))


def proposals(
    values: torch.Tensor, generator: torch.Generator, bounds: Bounds = (None, None), far: bool = False
) -> Iterator[torch.Tensor]:
    """Yield new tensors of the same shape and dtype, starting with the one that changes most; nothing if the values
    cannot be varied. `far` adds constants far from the values seen, for inputs on the host."""
    if values.numel() == 0:
        return
    seen = [values]
    more = (_floats(values, generator, bounds, contrast=True) for _ in range(_CONTRASTS) if values.is_floating_point())
    for new in chain(_proposed(values, generator, bounds), constants(values, generator, bounds, far), more):
        # `torch.equal` treats NaN as unequal, so an unchanged tensor with NaN would count as new.
        if not any(bool(same_elements(new, known).all()) for known in seen):
            seen.append(new)
            yield new


def _proposed(values: torch.Tensor, generator: torch.Generator, bounds: Bounds) -> Iterator[torch.Tensor]:
    if values.dtype == torch.bool:
        yield _permuted(values.flatten(), generator).reshape(values.shape)
    elif values.is_complex():
        parts = torch.view_as_real(values)
        yield torch.view_as_complex(_floats(parts.contiguous(), generator, (None, None)).contiguous())
    elif values.is_floating_point():
        yield _floats(values, generator, bounds)
    else:
        for flat in _integers(values.flatten().to(torch.int64), generator, bounds):
            yield flat.to(values.dtype).reshape(values.shape)


def _floats(values: torch.Tensor, generator: torch.Generator, bounds: Bounds, contrast: bool = False) -> torch.Tensor:
    """Redraw floats within their range; with `contrast`, only from its ends."""
    wide = values.double()
    limits = torch.finfo(values.dtype)
    free = torch.isfinite(wide) & (wide < limits.max) & (wide > limits.min)
    if not bool(free.any()):
        return values.clone()
    low, high = bounds
    low = float(wide[free].min()) if low is None else low
    high = float(wide[free].max()) if high is None else high
    drawn = torch.rand(wide.shape, generator=generator, dtype=torch.float64)
    drawn = (drawn.round() if contrast else drawn) * (high - low) + low
    return torch.where(free, drawn, wide).to(values.dtype)


def _integers(flat: torch.Tensor, generator: torch.Generator, bounds: Bounds) -> Iterator[torch.Tensor]:
    if None not in bounds:
        low, high = (int(bound) for bound in bounds if bound is not None)
        yield torch.randint(low, high + 1, flat.shape, generator=generator)
        return
    different = int(torch.unique(flat).numel())
    steps = flat[1:] - flat[:-1]
    rising = different > 1 and bool((steps >= 0).all())
    if flat.numel() == 1 or (not rising and different != flat.numel()):
        yield _redrawn(flat, generator)
        return
    kinds = _OTHERS if not rising else _WINDOW if bool((steps == 1).all()) else _OFFSETS
    for kind in kinds:
        yield kind(flat, generator)


def _redrawn(flat: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    free = (flat >= 0) & (flat < torch.iinfo(torch.int64).max)
    if not bool(free.any()):
        return flat.clone()
    drawn = torch.randint(0, int(flat[free].max()) + 1, flat.shape, generator=generator)
    return torch.where(free, drawn, flat)


def _permuted(flat: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Return the elements in another order if possible. Half of the permutations of two elements change nothing."""
    drawn = flat[torch.randperm(flat.numel(), generator=generator)]
    return flat.roll(1) if drawn.equal(flat) else drawn


def _inner_redrawn(flat: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Redraw offsets. The first and the last stay. The others are drawn between these two, and sorted: `[0, 3, 7, 12]`
    may become `[0, 5, 6, 12]`."""
    first, last = int(flat[0]), int(flat[-1])
    inner = torch.randint(first, last + 1, (max(flat.numel() - 2, 0),), generator=generator).sort().values
    return torch.cat([flat[:1], inner, flat[-1:]]) if flat.numel() > 2 else flat.clone()


def _members(flat: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Replace each element by a random element of the tensor, and sort the result."""
    return flat[torch.randint(0, flat.numel(), flat.shape, generator=generator)].sort().values


def _earlier(flat: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Move positions to an earlier window of the same length: `[5, 6, 7]` may become `[2, 3, 4]`."""
    first = int(flat[0])
    return flat - int(torch.randint(1, first + 1, (), generator=generator)) if first > 0 else flat.clone()


Kinds = tuple[Callable[[torch.Tensor, torch.Generator], torch.Tensor], ...]
_WINDOW: Kinds = (_earlier, _permuted, _members)
_OFFSETS: Kinds = (_inner_redrawn, _members, _permuted)
_OTHERS: Kinds = (_permuted, _redrawn)


_SCALE = 0.02
"The standard deviation with which transformers usually initialises weights."
_DRAWN = 1 << 20
"The largest number of values that are drawn. A larger parameter repeats these values."


def fill_zero_parameters(device: Device, subject: Subject) -> list[str]:
    """Fill the floating-point parameters that are zero everywhere, as in a newly made head or gate, and return their
    paths. After such a layer every output is zero for any inputs, so nothing could be compared. Whether a step can be
    captured does not depend on the values of parameters. Every child draws the same values for the same path."""
    filled = []
    for path, tensor in reachable_state(subject).tensors.items():
        if not isinstance(tensor, torch.nn.Parameter) or not tensor.is_floating_point() or tensor.numel() == 0:
            continue
        with outside_modes():
            beginning = tensor.detach()[:1] if tensor.ndim else tensor.detach()
        if tensor.is_meta or not (_is_zero(device, beginning) and _is_zero(device, tensor)):
            continue
        with outside_modes():
            drawn = torch.randn(min(tensor.numel(), _DRAWN), generator=generator_for(path)) * _SCALE
            repeated = drawn.repeat(-(-tensor.numel() // drawn.numel()))[: tensor.numel()]
            values = repeated.to(tensor.dtype).reshape(tensor.shape)
        device.store(tensor, values)
        filled.append(path)
    return filled


def _is_zero(device: Device, tensor: torch.Tensor) -> bool:
    host = device.to_host(tensor)
    with outside_modes():
        return not bool(host.count_nonzero())
