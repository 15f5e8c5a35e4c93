"""The devices a step can run on; `open_device` is called in a child process only."""

from __future__ import annotations

from graphsafe.capture.device.protocol import Device


def open_device(name: str) -> Device:
    """`cuda:N` or `sim:N`. Raises `RuntimeError` where the machine has no such device."""
    kind, _, index = name.partition(":")
    if kind == "sim":
        from graphsafe.capture.device.sim import SimDevice

        return SimDevice(int(index or 0))
    from graphsafe.capture.device.cuda import CudaDevice

    return CudaDevice(int(index or 0))
