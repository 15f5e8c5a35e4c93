"""The state that snippets run on: what they call `s`."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from op_snippets import Catalogue


class State:
    """Its parts are made when first asked for, and are the same in every state."""

    def __init__(self, catalogue: Catalogue, device: torch.device) -> None:
        self._parts = {**catalogue.tensors, **catalogue.host, **catalogue.objects}
        self._varied = catalogue.varied
        self._device = device

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._parts:
            raise AttributeError(name)
        torch.manual_seed(0)
        value = eval(self._parts[name], {"torch": torch, "np": np, "s": self, "dev": self._device})
        setattr(self, name, value)
        return value

    def make_parts_of(self, step: str) -> None:
        """Make what the source of a snippet names."""
        for name in re.findall(r"\bs\.(\w+)", step):
            getattr(self, name)

    def refresh(self, number: int) -> None:
        """Give what varies the values of step `number`, the same ones in every state."""
        torch.manual_seed(number)
        for name, expression in self._varied.items():
            getattr(self, name).copy_(eval(expression, {"torch": torch}))

    def run(self, code: Any) -> torch.Tensor:
        scope = {"torch": torch, "F": F, "np": np, "dev": self._device, "s": self}
        exec(code, scope)
        out: torch.Tensor = scope["out"]
        return out


def same(replayed: torch.Tensor, eager: torch.Tensor) -> bool:
    """As far as rounding, and sums in another order, allow."""
    if replayed.shape != eager.shape or replayed.dtype != eager.dtype:
        return False
    if not (eager.is_floating_point() or eager.is_complex()):
        return torch.equal(replayed, eager)
    return torch.allclose(replayed, eager, rtol=1e-3, atol=1e-3, equal_nan=True)
