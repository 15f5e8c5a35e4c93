"""Chooses the source that watches the running thread."""

from __future__ import annotations

import sys

import torch

from graphsafe.errors import RequestError
from graphsafe.guard.source import Source

_NOTHING_TO_SEE = (
    "graphsafe.forbid would see nothing: there is no GPU here, and no simulated device; ask for the fixture "
    "graphsafe_device, or run pytest with --graphsafe-device sim"
)


def source_here() -> Source:
    """Return the source that sees this thread. Raises RequestError if there is none."""
    worlds = sys.modules.get("graphsafe.capture.device.sim.world")
    world = None if worlds is None else worlds.active()
    if world is not None:
        from graphsafe.guard.on_sim import SimSource

        return SimSource(world)
    if torch.cuda.is_available():
        from graphsafe.guard.on_cuda import CudaSource

        return CudaSource()
    raise RequestError(_NOTHING_TO_SEE)
