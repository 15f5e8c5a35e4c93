"""Answers questions about where a tensor lies: handlers of `SimFunctionMode`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from graphsafe.capture.device.sim.tags import HOST, index_of
from graphsafe.capture.device.valueless import is_valueless

_CPU = torch.device("cpu")


def device(mode: object, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Answer `x.device`. Memory without values lies on the meta device, and is reported as the host's."""
    index = index_of(args[0])
    if index == HOST:
        return _CPU if is_valueless(args[0]) else func(*args)
    return torch.device("cuda", index)


def is_cuda(mode: object, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Answer `x.is_cuda`."""
    return index_of(args[0]) != HOST


def is_cpu(mode: object, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Answer `x.is_cpu`."""
    return index_of(args[0]) == HOST and (func(*args) or is_valueless(args[0]))


def is_meta(mode: object, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Answer `x.is_meta`: true only for tensors that the user's code put there itself."""
    return func(*args) and not is_valueless(args[0])


def get_device(mode: object, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Answer `x.get_device()`."""
    return index_of(args[0])
