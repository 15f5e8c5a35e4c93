"""A child's place among the ranks of its target: the process group that it joins, and the decisions in which all ranks
have to agree.

Every rank runs the same children. If one rank tried other inputs or ran a further step, the others would wait for it in
a collective. So all ranks take part in each decision about a further step.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch

from graphsafe.capture.child.ranks.issued import Issued, issued_noted
from graphsafe.capture.child.targets import TargetError
from graphsafe.capture.device.protocol import Device
from graphsafe.capture.shared.job import WAITS_FOR_RANKS, Channel, Job
from graphsafe.capture.shared.replaced import replaced

_FOR_EVER = timedelta(days=1)
"""The timeout that PyTorch is given. The parent ends a rank that waits too long, and reports the rank's line. PyTorch's
own timeout would not report the line."""
_INTERFACE = "GLOO_SOCKET_IFNAME"
_DONE = "done"


@dataclass
class Ranks:
    """A child's rank. A process without other ranks is rank 0 of 1, and decides alone."""

    number: int = 0
    size: int = 1
    device: Device | None = None
    channel: Channel | None = None
    store: Any = None
    issued: Issued = field(default_factory=Issued)
    "The collectives that this rank has issued and that a report may need."
    gone: bool = False
    "Whether this rank stops while the others continue. The parent then ends the other ranks."
    _asked: int = field(default=0, repr=False)

    def gather(self, value: Any) -> list[Any]:
        """Return every rank's value, in order of rank, as plain data. Raises TargetError if another rank has ended."""
        if self.size == 1:
            return [value]
        assert self.channel is not None
        self._asked += 1
        before = self.channel.now
        self.store.set(f"{self._asked}/{self.number}", json.dumps(value))
        self.channel.phase(WAITS_FOR_RANKS)
        reported = [json.loads(self.store.get(f"{self._asked}/{rank}")) for rank in range(self.size)]
        self.channel.phase(before)
        if value != _DONE and _DONE in reported:
            raise TargetError("step", f"rank {reported.index(_DONE)} has ended before rank {self.number}")
        return reported

    def alone(self) -> AbstractContextManager[None]:
        """Let this rank alone capture its step. A capture runs no collective, so the other ranks do not wait."""
        return replaced((self.issued, "alone", True))

    def any(self, value: bool) -> bool:
        return any(self.gather(bool(value)))

    def all(self, value: bool) -> bool:
        return all(self.gather(bool(value)))

    def union(self, values: Iterable[str]) -> list[str]:
        """Return the values of all ranks, in the same order in every rank."""
        return list(dict.fromkeys(value for each in self.gather(list(values)) for value in each))

    def align(self) -> None:
        """Let all ranks continue at nearly the same time: within microseconds, if the device has a barrier."""
        if self.size > 1 and self.device is not None:
            self.device.device_barrier()


@contextmanager
def joined(job: Job, channel: Channel, device: Device) -> Iterator[Ranks]:
    """Yield the ranks that run this child, with a process group that is initialised and warmed up. Raises RuntimeError.

    The group is never destroyed, because destroying a communicator hangs while a graph with its collectives exists.
    Instead the process exits at once when all ranks have done their steps.
    """
    if job.ranks == 1:
        yield Ranks()
        return
    import torch.distributed as dist

    if not dist.is_available():
        raise RuntimeError("this torch has no torch.distributed")
    from torch._C._distributed_c10d import FileStore, PrefixStore

    channel.phase("join the other ranks")
    os.environ.update(job.variables)
    os.environ.setdefault(_INTERFACE, "lo")
    with ExitStack() as stack:
        store = FileStore(job.rendezvous, job.ranks)
        store.set_timeout(_FOR_EVER)
        dist.init_process_group(
            device.collectives,
            store=PrefixStore("group", store),
            rank=job.rank,
            world_size=job.ranks,
            timeout=_FOR_EVER,
            device_id=device.torch_device if device.collectives == "nccl" else None,
        )
        ranks = Ranks(job.rank, job.ranks, device, channel, PrefixStore("graphsafe", store))
        device.device_barrier()
        if job.child != "measure":  # noting collectives takes time, which `measure` would include
            ranks.issued = stack.enter_context(issued_noted(job, channel))
        yield ranks
    if not ranks.gone:
        # Wait for the other ranks. Exiting earlier would cut their connections.
        ranks.gather(_DONE)


_AT_A_PORT = ("tcp://", "env://")


@contextmanager
def own_port(folder: Path, child: str) -> Iterator[None]:
    """Give a child its own store if the target makes a process group of one process at a fixed port. Several children
    run side by side, and only one of them could use that port. PyTorch looks up `rendezvous` when a group is made, so
    replacing that function here is early enough."""
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
