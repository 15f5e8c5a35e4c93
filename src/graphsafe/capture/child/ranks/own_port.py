"""Gives each child its own store, if the target makes a process group of one process at a fixed port.

A target's children run concurrently, and only one child could have the port. No other process has to find a group of
one process, so the port is not needed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from graphsafe.capture.shared.replaced import replaced

_AT_A_PORT = ("tcp://", "env://")


@contextmanager
def own_port(folder: Path, child: str) -> Iterator[None]:
    """Replace the rendezvous of groups of one process. PyTorch looks it up when a group is made, so it may be replaced
    late."""
    if not torch.distributed.is_available():
        yield
        return
    from torch.distributed import distributed_c10d

    original: Any = distributed_c10d.rendezvous  # type: ignore[attr-defined]
    count = 0

    def rendezvous(url: str, rank: int = -1, world_size: int = -1, **more: Any) -> Any:
        nonlocal count
        size = world_size if world_size != -1 or not url.startswith("env://") else int(os.environ.get("WORLD_SIZE", 0))
        if size != 1 or not url.startswith(_AT_A_PORT):
            return original(url, rank, world_size, **more)
        count += 1
        return original(f"file://{folder.absolute()}/{child}.meeting-{count}", 0, 1, **more)

    with replaced((distributed_c10d, "rendezvous", rendezvous)):
        yield
