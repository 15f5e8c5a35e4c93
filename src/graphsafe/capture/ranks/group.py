"""A child's place among the ranks of its target: the process group that it joins, and decisions that all make alike.

Every rank runs the same children. One that took another way than its peers (tried other inputs, ran a step more) would
leave them waiting in a collective, so whatever decides about a further step is asked of all ranks.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from graphsafe.capture.ranks.issued import Issued, issued_noted
from graphsafe.capture.targets import TargetError

if TYPE_CHECKING:
    from graphsafe.capture.device.protocol import Device
    from graphsafe.capture.job import Channel, Job

_FOR_EVER = timedelta(days=1)
"The parent ends who waits too long, and says where it stood; a limit of PyTorch's own would say less."
_INTERFACE = "GLOO_SOCKET_IFNAME"
WAITS = "wait for the other ranks"
"The phase of a child that has made all its steps so far and has to know what the others did in theirs."
_DONE = "done"


@dataclass
class Ranks:
    """A process alone is the one rank of one, and has nobody to ask."""

    number: int = 0
    size: int = 1
    device: Device | None = None
    channel: Channel | None = None
    store: Any = None
    issued: Issued = field(default_factory=Issued)
    "What this rank issued so far, as far as it is of note."
    gone: bool = False
    "Whether this rank has left the others, which are ended then."
    _asked: int = field(default=0, repr=False)

    def gather(self, value: Any) -> list[Any]:
        """What each rank says, in order; plain data. Waits for all of them. Raises TargetError where one of them has
        ended."""
        if self.size == 1:
            return [value]
        assert self.channel is not None
        self._asked += 1
        before = self.channel.now
        self.store.set(f"{self._asked}/{self.number}", json.dumps(value))
        self.channel.phase(WAITS)
        reported = [json.loads(self.store.get(f"{self._asked}/{rank}")) for rank in range(self.size)]
        self.channel.phase(before)
        if value != _DONE and _DONE in reported:
            raise TargetError("step", f"rank {reported.index(_DONE)} has ended before rank {self.number}")
        return reported

    def any(self, value: bool) -> bool:
        return any(self.gather(bool(value)))

    def all(self, value: bool) -> bool:
        return all(self.gather(bool(value)))

    def union(self, values: Iterable[str]) -> list[str]:
        """What any rank has, in one order for all."""
        return list(dict.fromkeys(value for each in self.gather(list(values)) for value in each))

    def align(self) -> None:
        """All ranks go on from here within microseconds, as far as the device lets them."""
        if self.size > 1 and self.device is not None:
            self.device.meet()


@contextmanager
def joined(job: Job, channel: Channel, device: Device) -> Iterator[Ranks]:
    """The process group of all ranks that run this child, made and warm. Raises RuntimeError.

    Nothing is taken down in the end. The process ends at once, when all ranks are done with their steps: a communicator
    that is destroyed while a graph with its collectives is alive hangs.
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
        device.meet()
        if job.child != "measure":  # noting takes time
            ranks.issued = stack.enter_context(issued_noted(job, channel))
        yield ranks
    if not ranks.gone:
        # An end of one would cut the connections of the others.
        ranks.gather(_DONE)
