"""Backward passes that wait for the device on CUDA, but not on the simulated device.

PyTorch's formulas for `prod` and `cumprod` count the zeros of the input and read the count on the host. While a
dispatch mode is active, as on the simulated device, they take another path, which does not wait. Measured on an H200
with torch 2.11: the snippets `prod_backward` and `cumprod_backward` of rules/ops/torch-2.11.json fail to capture.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

_FIRST = {
    "aten::eq": {"CumprodBackward0": "cumprod_backward"},
    "aten::ones": {"ProdBackward0": "prod_backward", "ProdBackward1": "prod_backward"},
}
"The first operation of the other path -> the autograd nodes that take this path, each with the name of its formula."


def may_wait(name: str) -> bool:
    return name in _FIRST


def waiting_formula(name: str, args: Sequence[Any]) -> str | None:
    """Return the formula that waits on CUDA, if a call is the first operation of the other path of an autograd node."""
    if name not in _FIRST or torch._C._current_graph_task_id() < 0:
        return None
    if name == "aten::eq" and not args[0].is_floating_point() and not args[0].is_complex():
        return None  # it compares the number of zeros, later on this path
    node = torch._C._current_autograd_node()
    return None if node is None else _FIRST[name].get(node.name())
