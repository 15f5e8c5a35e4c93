"""The devices a step can run on; `open_device` is called in a child process only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphsafe.capture.device.protocol import Device

if TYPE_CHECKING:
    from graphsafe.capture.job import Channel, Job


def open_device(name: str, count: int = 1) -> Device:
    """`cuda:N` or `sim:N`. Raises `RuntimeError` where the machine has no such device. `count`: how many simulated ones
    there are at least."""
    kind, _, index = name.partition(":")
    if kind == "sim":
        from graphsafe.capture.device.sim import SimDevice
        from graphsafe.rulebook import load_rulebook

        return SimDevice(int(index or 0), load_rulebook().ops, count)
    from graphsafe.capture.device.cuda import CudaDevice

    return CudaDevice(int(index or 0))


def run(job: Job, channel: Channel) -> None:
    """The child that only looks: which GPUs this machine has."""
    import torch

    channel.tell(torch=torch.__version__, devices=[f"cuda:{index}" for index in range(torch.cuda.device_count())])
