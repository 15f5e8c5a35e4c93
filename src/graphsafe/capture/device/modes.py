"""Runs code without torch's function and dispatch modes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def outside_modes() -> Iterator[None]:
    """Switch off all function and dispatch modes, the simulated device's included, so that torch does what it says."""
    import torch
    from torch.utils._python_dispatch import _disable_current_modes

    with torch._C.DisableTorchFunction(), _disable_current_modes():
        yield
