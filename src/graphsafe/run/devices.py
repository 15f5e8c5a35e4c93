"""The devices that a watch is asked for."""

from __future__ import annotations

from collections.abc import Sequence

from graphsafe.capture.request import parse_device
from graphsafe.errors import RequestError


def parsed_devices(texts: Sequence[str]) -> tuple[str, ...]:
    """Check the texts of `--device` and return the devices; none means all GPUs. Raises RequestError."""
    devices = tuple(dict.fromkeys(map(parse_device, texts))) or ("cuda",)
    if len({device.startswith("sim") for device in devices}) > 1:
        named = " ".join(f"--device {device}" for device in devices)
        raise RequestError(f"{named}: a program runs on GPUs or plays simulated devices; name one kind")
    return devices
