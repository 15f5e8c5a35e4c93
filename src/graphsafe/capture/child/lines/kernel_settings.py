"""Reads the settings of PyTorch that choose the kernel of an operation: a graph keeps the kernel of its capture.

TF32 in place of float32 changes the results of matrix products by a thousandth (an H100, torch 2.11), and shows neither
in the operation nor in its arguments.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from typing import Any

import torch

_PRODUCTS = re.compile(r"aten\.(_?addmm|addmv|addbmm|baddbmm|bmm|mm|mv|matmul|linear)\b")
_CONVOLUTIONS = re.compile(r"aten\.(cudnn_)?_?(convolution|conv\d|thnn_conv|rnn|lstm|gru)|aten\._cudnn_rnn")
_OF_PRODUCTS = ("allow_fp16_reduced_precision_reduction", "allow_bf16_reduced_precision_reduction")
_OF_CONVOLUTIONS = ("enabled", "deterministic")


def settings_for(operation: str) -> Iterator[str]:
    """Yield the settings, with their present values, by which the kernel of an operation is chosen."""
    for name, read in _readers(operation):
        yield f"{name}={read()}"


@functools.cache
def _readers(operation: str) -> tuple[tuple[str, Callable[[], Any]], ...]:
    if _PRODUCTS.match(operation):
        return _all("torch.backends.cuda.matmul", torch.backends.cuda.matmul, _OF_PRODUCTS)
    if _CONVOLUTIONS.match(operation):
        return _all("torch.backends.cudnn", torch.backends.cudnn, _OF_CONVOLUTIONS)
    return ()


def _all(path: str, backend: Any, names: tuple[str, ...]) -> tuple[tuple[str, Callable[[], Any]], ...]:
    # From 2.9 on `allow_tf32` raises if a program has set `fp32_precision`, which follows `allow_tf32` (torch 2.13).
    of_float32 = getattr(backend, "conv", backend)
    precision = "fp32_precision" if hasattr(of_float32, "fp32_precision") else "allow_tf32"
    if precision == "allow_tf32":
        of_float32 = backend
    return (
        (f"{path}.{precision}", functools.partial(getattr, of_float32, precision)),
        *((f"{path}.{name}", functools.partial(getattr, backend, name)) for name in names),
    )
