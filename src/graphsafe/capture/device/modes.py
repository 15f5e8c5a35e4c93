"""torch's function and dispatch modes, and how to do something without them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def outside_modes() -> Iterator[None]:
    """Where torch does what it says: no function mode and no dispatch mode, the simulated device's included."""
    import torch
    from torch.utils._python_dispatch import _disable_current_modes

    with torch._C.DisableTorchFunction(), _disable_current_modes():
        yield
