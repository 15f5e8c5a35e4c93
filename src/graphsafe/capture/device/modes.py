"""Runs code without torch's function and dispatch modes."""

from __future__ import annotations

from typing import Any


class outside_modes:
    """A context in which no function and no dispatch mode is on, the simulated device's neither, so that torch does
    what it says. It is entered for each operation of many steps, so it does no more than that."""

    __slots__ = ("_functions", "_modes")

    def __enter__(self) -> None:
        import torch
        from torch.utils import _python_dispatch as dispatch

        self._functions: Any = torch._C.DisableTorchFunction()
        self._functions.__enter__()
        self._modes = [dispatch._pop_mode() for _ in range(torch._C._len_torch_dispatch_stack())]

    def __exit__(self, *error: object) -> None:
        from torch.utils import _python_dispatch as dispatch

        for mode in reversed(self._modes):
            dispatch._push_mode(mode)
        self._functions.__exit__(*error)
