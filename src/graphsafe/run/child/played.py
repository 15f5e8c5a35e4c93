"""Runs a whole program on the simulated device, with gloo in place of NCCL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch.distributed as dist

from graphsafe.capture.device.sim import SimDevice
from graphsafe.capture.device.sim.world import World
from graphsafe.capture.shared.replaced import replaced
from graphsafe.rulebook.book import load_rulebook


@contextmanager
def played(index: int, count: int) -> Iterator[World]:
    """Make this process use the device `sim:index`, one of at least `count` devices.

    Threads that already run are not affected.
    """
    device = SimDevice(index, load_rulebook().ops, count)
    modules = (dist, dist.distributed_c10d) if dist.is_available() else ()
    functions = [(module, name) for module in modules for name in ("init_process_group", "new_group")]
    with device.entered(), replaced(*((*one, _with_gloo(getattr(*one))) for one in functions)):
        yield device.world


def _with_gloo(real: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function use gloo, because the simulated device's memory is host memory.

    `device_id` is dropped, because a gloo group cannot be bound to a device.
    """

    def make(*args: Any, **kwargs: Any) -> Any:
        if args and isinstance(args[0], str):
            args = ("gloo", *args[1:])
        elif "backend" in kwargs:
            kwargs["backend"] = "gloo"
        return real(*args, **{name: value for name, value in kwargs.items() if name != "device_id"})

    return make
