"""Lists the GPUs of this machine, in a child of its own."""

from __future__ import annotations

import torch

from graphsafe.capture.answers.build import Devices
from graphsafe.capture.shared.job import Channel, Job


def run(job: Job, channel: Channel) -> None:
    channel.tell(Devices(tuple(f"cuda:{index}" for index in range(torch.cuda.device_count()))))
