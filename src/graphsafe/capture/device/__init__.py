"""The devices that a step can run on. Only child processes call `open_device`."""

from __future__ import annotations

from graphsafe.capture.device.protocol import Device


def open_device(name: str, count: int = 1, shapes: bool = False) -> Device:
    """Open `cuda:N` or `sim:N`. Raises `RuntimeError` if the machine has no such device. `count` is the minimum number
    of simulated devices. With `shapes`, simulated devices compute only shapes and no values."""
    kind, _, index = name.partition(":")
    if kind == "sim":
        from graphsafe.capture.device.sim import SimDevice
        from graphsafe.rulebook.book import load_rulebook

        return SimDevice(int(index or 0), load_rulebook().ops, count, shapes)
    from graphsafe.capture.device.cuda import CudaDevice

    return CudaDevice(int(index or 0))
