"""What tests read from the simulated device."""

from __future__ import annotations

import torch

from graphsafe.capture.device.sim import SimDevice


def digest(device: SimDevice, tensor: torch.Tensor) -> str:
    return device.digests({"": tensor})[""]
