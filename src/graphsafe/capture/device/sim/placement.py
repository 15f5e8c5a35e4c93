"""Handlers of `SimFunctionMode` that return a tensor's device, and the default device of new tensors."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch
from torch.utils import _device

from graphsafe.capture.device.sim.tags import HOST, index_of
from graphsafe.capture.device.structures import is_valueless

_CPU = torch.device("cpu")


@functools.lru_cache(maxsize=1)
def constructors() -> frozenset[Any]:
    """Return the functions to which a default device applies."""
    return frozenset(_device._device_constructors())


@functools.lru_cache(maxsize=1)
def constructors_from_numbers() -> frozenset[Any]:
    """Return the constructors that take numbers. The result of such a constructor does not depend on the device of an
    argument: `torch.arange(n)` is on the host even if `n` is a tensor on the device."""
    data = {torch.tensor, torch.as_tensor, torch.asarray, torch.nested.nested_tensor}
    return constructors() - data - {func for func in constructors() if func.__name__.startswith("sparse_")}


def default_device() -> torch.device | None:
    return getattr(_device, "CURRENT_DEVICE", None)


def device(mode: object, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Return the value of `x.device`. For host tensors without values, this is the CPU, although they are on the meta
    device."""
    index = index_of(args[0])
    if index == HOST:
        return _CPU if is_valueless(args[0]) else func(*args)
    return torch.device("cuda", index)
