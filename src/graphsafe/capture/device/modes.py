"""Modes of torch's dispatcher: a base class for modes that watch operations, and a context that runs code without
modes."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class outside_modes:
    """A context in which no function mode and no dispatch mode is active. The context is entered for each operation, so
    it must be cheap."""

    __slots__ = ("_functions", "_modes")

    def __enter__(self) -> None:
        dispatch = torch.utils._python_dispatch
        self._functions: Any = torch._C.DisableTorchFunction()
        self._functions.__enter__()
        self._modes = [dispatch._pop_mode() for _ in range(torch._C._len_torch_dispatch_stack())]

    def __exit__(self, *error: object) -> None:
        for mode in reversed(self._modes):
            torch.utils._python_dispatch._push_mode(mode)
        self._functions.__exit__(*error)


class OperationMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A mode that sees all operations, including higher-order operations."""

    supports_higher_order_operators = True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Return False. To skip the mode, PyTorch would import dynamo, which takes seconds."""
        return False
