"""The modes that `with` blocks and decorators set around a break. A replay does not run the `with` statements, so each
break sets the modes again.

Emitted code has a copy of this text; it imports nothing of graphsafe.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Any

import torch

# -- begin --


def _modes() -> tuple[bool, bool, tuple[tuple[bool, torch.dtype], ...]]:
    """Return inference mode, grad mode, and for each device whether autocast is on, and its dtype."""
    casts = tuple((torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)) for kind in ("cuda", "cpu"))
    return torch.is_inference_mode_enabled(), torch.is_grad_enabled(), casts


def surroundings() -> Callable[[], AbstractContextManager[Any]]:
    """Return the current modes as a block that sets them again.

    Entering it costs nothing if the modes are already set.
    """
    then = _modes()
    inference, grad, casts = then

    def again() -> AbstractContextManager[Any]:
        block = ExitStack()
        now = _modes()
        if now == then:
            return block
        if now[0] != inference:
            block.enter_context(torch.inference_mode(inference))
        block.enter_context(torch.set_grad_enabled(grad))
        for kind, (is_on, dtype), other in zip(("cuda", "cpu"), casts, now[2], strict=True):
            if (is_on, dtype) != other:
                block.enter_context(torch.autocast(kind, dtype=dtype, enabled=is_on))
        return block

    return again
