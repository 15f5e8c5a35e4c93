"""Reads the settings of PyTorch that decide which kernel an operation uses. A graph keeps the kernel of its capture.

With TF32 in place of float32, for example, the results of matrix products change by a thousandth (H100, torch 2.11).
Neither the operation nor its arguments show this setting.
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
    """Yield the settings that decide which kernel the operation uses, as `name=value`."""
    for setting in _settings(operation):
        yield f"{setting}={_value(setting)}"


@functools.cache
def _settings(operation: str) -> tuple[str, ...]:
    if _PRODUCTS.match(operation):
        of_all = "torch.backends.cuda.matmul"
        half = [f"{of_all}.allow_{kind}_reduced_precision_reduction" for kind in ("fp16", "bf16")]
        # Torch 2.7 and later can add up products in half precision, with an error of 0.0008 on an H100.
        summed = f"{of_all}.allow_fp16_accumulation"
        return (_precision(of_all, of_all), *half, *([summed] if _exists(summed) else []))
    if _CONVOLUTIONS.match(operation):
        of_all = "torch.backends.cudnn"
        return (_precision(f"{of_all}.conv", of_all), f"{of_all}.enabled", f"{of_all}.deterministic")
    return ()


def _precision(own: str, of_all: str) -> str:
    """Return the name of the setting for the precision of float32.

    Since torch 2.9, reading `allow_tf32` raises if the program has set `fp32_precision`. Setting `allow_tf32` also sets
    `fp32_precision` (torch 2.13), so the latter is read if it exists.
    """
    precise = f"{own}.fp32_precision"
    return precise if _exists(precise) else f"{of_all}.allow_tf32"


def _exists(setting: str) -> bool:
    try:
        _value(setting)
    except AttributeError:
        return False
    return True


def _value(setting: str) -> Any:
    return functools.reduce(getattr, setting.split(".")[1:], torch)
