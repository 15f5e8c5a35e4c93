"""Reads this process's rank and groups from `torch.distributed`, if the program uses it."""

from __future__ import annotations

import os
import sys
from typing import Any


def rank() -> int | None:
    """Return this process's rank in its process group. Without a group, return the rank that the launcher gave it."""
    distributed = _initialized()
    if distributed is not None:
        return int(distributed.get_rank())
    given = os.environ.get("RANK", "")
    return int(given) if given.isdigit() else None


def has_subgroups() -> bool:
    """Return whether the process is in a group that contains several ranks, but not all."""
    distributed = _initialized()
    if distributed is None:
        return False
    groups = distributed.distributed_c10d._world.pg_group_ranks.values()
    return any(1 < len(ranks) < distributed.get_world_size() for ranks in groups)


def _initialized() -> Any:
    distributed: Any = sys.modules.get("torch.distributed")
    known = distributed is not None and distributed.is_available() and distributed.is_initialized()
    return distributed if known else None
