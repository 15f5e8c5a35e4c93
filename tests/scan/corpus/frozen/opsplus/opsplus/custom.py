"""Operators that the dispatcher knows."""

import functools

import torch
from torch.library import Library, custom_op


@custom_op("opsplus::compacted_mean", mutates_args=())
def compacted_mean(x: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
    rows = keep.nonzero().squeeze(1)  # guilty: compacted_mean GS201
    return x.index_select(0, rows).mean(0)


@compacted_mean.register_fake
def _(x, keep):
    return x.new_empty(x.shape[1])


@custom_op("opsplus::scale_by_peak", mutates_args={"x"})
def scale_by_peak(x: torch.Tensor) -> None:
    x.div_(x.abs().max().clamp(min=1e-6).item())  # guilty: scaled_by_peak GS101


# quiet: masked_mean_op
@custom_op("opsplus::masked_mean", mutates_args=())
def masked_mean(x: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
    weights = keep.to(x.dtype)
    return (x * weights[:, None]).sum(0) / weights.sum().clamp(min=1)


library = Library("opsplus_codes", "DEF")
library.define("decode(Tensor codes) -> Tensor")


def decode(codes):
    levels = torch.tensor([-1.0, -0.3, 0.3, 1.0], device=codes.device)  # guilty: decoded_levels GS301
    return levels.index_select(0, codes.flatten()).view(codes.shape)


library.impl("decode", decode, "CompositeExplicitAutograd")


@functools.singledispatch
def total(value):
    raise TypeError(type(value))


@total.register
def _(value: torch.Tensor):
    return sum(value.tolist())  # guilty: single_dispatch GS101


@total.register
def _(value: list):
    return sum(total(part) for part in value)


def mean_of_parts(x):
    return x / total([x[0], x[1]])


def small(x):
    return x.cumsum(0)


def large(x):
    return x.flip(0).cumsum(0)


KERNELS = {True: small, False: large}


def pick(x, limit):
    return KERNELS[bool(x.abs().amax() < limit)](x)  # guilty: kernel_table GS101|GS102


PLANS = {}


def planned(fn):
    """Keeps what `fn` planned for a shape."""

    @functools.wraps(fn)
    def wrapper(x, lengths):
        if x.shape not in PLANS:
            PLANS[x.shape] = fn.plan(lengths)  # guilty: kept_plan GS701
        return fn(x, PLANS[x.shape])

    return wrapper


def weigh(x, plan):
    return x * plan


weigh.plan = lambda lengths: lengths.cumsum(0).float()
weigh_planned = planned(weigh)

_workspace = None


# quiet: module_workspace
def workspace(like):
    global _workspace
    if _workspace is None or _workspace.numel() < like.numel():
        _workspace = torch.empty(like.numel(), dtype=like.dtype, device=like.device)
    return _workspace[: like.numel()].view_as(like)


# quiet: module_workspace
def softmax_in_workspace(x):
    return torch.softmax(x, -1, out=workspace(x)) + 0.0


_floor = None


def above_floor(x):
    """Subtracts what has been the usual level of late."""
    global _floor
    _floor = x.mean() if _floor is None else torch.lerp(_floor, x.mean(), 0.2)  # guilty: usual_level GS703|GS701
    return x - _floor


def remembered(fn):
    """Results by shape; callers ask for the same thing again and again."""
    results = {}

    def wrapper(x):
        try:
            return results[x.shape]
        except KeyError:
            results[x.shape] = fn(x)  # guilty: remembered_result GS701|GS705|GS602
            return results[x.shape]

    return wrapper


@remembered
def spectrum(x):
    return torch.fft.rfft(x).abs()
