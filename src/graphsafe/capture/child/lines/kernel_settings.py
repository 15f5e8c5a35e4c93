"""Reads the settings of PyTorch that choose the kernel of an operation: a graph keeps the kernel of its capture.

TF32 in place of float32 changes the results of matrix products by a thousandth (an H100, torch 2.11), but neither the
operation nor its arguments show it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import Any

import torch

_PRODUCTS = re.compile(r"aten\.(_?addmm|addmv|addbmm|baddbmm|bmm|mm|mv|matmul|linear)\b")
_CONVOLUTIONS = re.compile(r"aten\.(cudnn_)?_?(convolution|conv\d|thnn_conv|rnn|lstm|gru)|aten\._cudnn_rnn")


def settings_for(operation: str) -> Iterator[str]:
    """Yield the settings, with their present values, by which the kernel of an operation is chosen."""
    for setting in _settings(operation):
        yield f"{setting}={_value(setting)}"


@functools.cache
def _settings(operation: str) -> tuple[str, ...]:
    if _PRODUCTS.match(operation):
        of_all = "torch.backends.cuda.matmul"
        half = [f"{of_all}.allow_{kind}_reduced_precision_reduction" for kind in ("fp16", "bf16")]
        # Torch 2.7 and later can sum products in half precision, with an error of 0.0008 on an H100.
        summed = f"{of_all}.allow_fp16_accumulation"
        return (_precision(of_all, of_all), *half, *([summed] if _exists(summed) else []))
    if _CONVOLUTIONS.match(operation):
        of_all = "torch.backends.cudnn"
        return (_precision(f"{of_all}.conv", of_all), f"{of_all}.enabled", f"{of_all}.deterministic")
    return ()


def _precision(own: str, of_all: str) -> str:
    """Return the setting of float32.

    From 2.9 on `allow_tf32` raises if a program has set `fp32_precision`, which follows `allow_tf32` (torch 2.13).
    """
    precise = f"{own}.fp32_precision"
    return precise if _exists(precise) else f"{of_all}.allow_tf32"


def _exists(setting: str) -> bool:
    """Return whether this version of torch has a setting."""
    try:
        _value(setting)
    except AttributeError:
        return False
    return True


def _value(setting: str) -> Any:
    return functools.reduce(getattr, setting.split(".")[1:], torch)
