"""Lists the GPUs of this machine, in a child of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphsafe.capture.answers.devices import Devices

if TYPE_CHECKING:
    from graphsafe.capture.shared.job import Channel, Job


def run(job: Job, channel: Channel) -> None:
    import torch

    channel.tell(Devices(tuple(f"cuda:{index}" for index in range(torch.cuda.device_count()))))
