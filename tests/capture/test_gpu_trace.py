"""PyTorch's GPU trace is on within a block only, and knows which calls may drop tensors before an exception is told."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from graphsafe.capture.device.cuda import gpu_trace  # noqa: E402


def test_the_trace_is_on_until_the_last_block_ends() -> None:
    flag = gpu_trace._flag()
    with gpu_trace.traced():
        with gpu_trace.traced():
            assert flag.value
        assert flag.value
    assert not flag.value


def test_a_trace_of_the_program_stays_on() -> None:
    flag = gpu_trace._flag()
    flag.value = True
    with gpu_trace.traced():
        pass
    assert flag.value
    flag.value = False


TORCH: dict[str, Any] = {
    "function": torch.add,
    "function of a submodule": torch._C._nn.gelu,
    "method": torch.Tensor.item,
    "bound method": torch.ones(1).item,
    "operator": torch.ops.aten.add.Tensor,
    "module": torch.nn.Linear(1, 1),
    "extension's function": torch._C._jit_pass_inline,
}
BUILTIN: dict[str, Callable[..., Any]] = {"function": len, "method": str.join, "bound method": [].append}


@pytest.mark.parametrize("kind", TORCH)
def test_calls_of_torch_are_followed(kind: str) -> None:
    assert not gpu_trace._is_builtin(TORCH[kind])


@pytest.mark.parametrize("kind", BUILTIN)
def test_calls_of_builtins_are_not(kind: str) -> None:
    assert gpu_trace._is_builtin(BUILTIN[kind])
    assert not gpu_trace._is_builtin(math.sqrt)
