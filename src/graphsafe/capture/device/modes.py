"""Runs code without torch's function and dispatch modes."""

from __future__ import annotations

from typing import Any

import torch


class outside_modes:
    """A context without function and dispatch modes, those of the simulated device included, so that torch calls act as
    documented. Many steps enter it for each operation, so it must be cheap."""

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
