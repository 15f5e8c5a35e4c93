"""New values for a step's inputs, drawn so that they stay what an input of that kind may be.

Floats: redrawn within the finite range seen; infinities, NaN and the dtype's extremes (masks) stay in place. Booleans:
permuted. Integers: redrawn from 0 to the largest seen, negative ones (padding) staying in place; sorted ones that
begin with 0 or count up by one (offsets, positions) are kept, other sorted or all-different ones (lengths, slots, block
tables) permuted. Everything here works on host copies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

Bounds = tuple["float | None", "float | None"]


def varied(values: torch.Tensor, generator: torch.Generator, bounds: Bounds = (None, None)) -> torch.Tensor:
    """A new tensor of the same shape and dtype; equal to `values` where nothing can be varied."""
    import torch

    if values.numel() == 0:
        return values.clone()
    if values.dtype == torch.bool:
        return _permuted(values.flatten(), generator).reshape(values.shape)
    if values.is_complex():
        parts = torch.view_as_real(values)
        return torch.view_as_complex(_floats(parts.contiguous(), generator, (None, None)).contiguous())
    if values.is_floating_point():
        return _floats(values, generator, bounds)
    return _integers(values, generator, bounds)


def _floats(values: torch.Tensor, generator: torch.Generator, bounds: Bounds) -> torch.Tensor:
    import torch

    wide = values.double()
    limits = torch.finfo(values.dtype)
    free = torch.isfinite(wide) & (wide < limits.max) & (wide > limits.min)
    if not bool(free.any()):
        return values.clone()
    low, high = _range(wide[free], bounds)
    drawn = torch.rand(wide.shape, generator=generator, dtype=torch.float64) * (high - low) + low
    return torch.where(free, drawn, wide).to(values.dtype)


def _integers(values: torch.Tensor, generator: torch.Generator, bounds: Bounds) -> torch.Tensor:
    import torch

    flat = values.flatten()
    wide = flat.to(torch.int64)
    if None not in bounds:
        low, high = (int(bound) for bound in bounds if bound is not None)
        return torch.randint(low, high + 1, wide.shape, generator=generator).to(values.dtype).reshape(values.shape)
    different = int(torch.unique(wide).numel())
    steps = wide[1:] - wide[:-1]
    rising = different > 1 and bool((steps >= 0).all())
    if rising and (int(wide[0]) == 0 or bool((steps == 1).all())):
        return values.clone()
    if rising or 1 < different == wide.numel():
        return _permuted(flat, generator).reshape(values.shape)
    free = (wide >= 0) & (wide < torch.iinfo(values.dtype).max)
    if not bool(free.any()):
        return values.clone()
    drawn = torch.randint(0, int(wide[free].max()) + 1, wide.shape, generator=generator)
    return torch.where(free, drawn, wide).to(values.dtype).reshape(values.shape)


def _permuted(flat: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Another order, where there is one: of two elements every second permutation is the old one."""
    import torch

    drawn = flat[torch.randperm(flat.numel(), generator=generator)]
    return flat.roll(1) if drawn.equal(flat) else drawn


def _range(seen: torch.Tensor, bounds: Bounds) -> tuple[float, float]:
    low, high = bounds
    return float(seen.min()) if low is None else low, float(seen.max()) if high is None else high
