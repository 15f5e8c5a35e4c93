"""Gives small random values to parameters that are zero everywhere, as in a newly made head or gate.

After such a layer every output is zero for any inputs, so nothing could be compared. Whether a step can be captured
does not depend on the values of parameters. Every child draws the same values for the same path.
"""

from __future__ import annotations

import torch

from graphsafe.capture.child.state import reachable_state
from graphsafe.capture.child.targets import Subject
from graphsafe.capture.child.vary import generator_for
from graphsafe.capture.device.modes import outside_modes
from graphsafe.capture.device.protocol import Device

_SCALE = 0.02
"The standard deviation with which transformers usually initialises weights."
_DRAWN = 1 << 20
"The largest number of values that are drawn. A larger parameter repeats these values."


def fill_zero_parameters(device: Device, subject: Subject) -> list[str]:
    """Fill the floating-point parameters that are zero everywhere, and return their paths."""
    filled = []
    for path, tensor in reachable_state(subject).tensors.items():
        if not isinstance(tensor, torch.nn.Parameter) or not tensor.is_floating_point() or tensor.numel() == 0:
            continue
        with outside_modes():
            beginning = tensor.detach()[:1] if tensor.ndim else tensor.detach()
        if tensor.is_meta or not (_is_zero(device, beginning) and _is_zero(device, tensor)):
            continue
        with outside_modes():
            drawn = torch.randn(min(tensor.numel(), _DRAWN), generator=generator_for(path)) * _SCALE
            repeated = drawn.repeat(-(-tensor.numel() // drawn.numel()))[: tensor.numel()]
            values = repeated.to(tensor.dtype).reshape(tensor.shape)
        device.store(tensor, values)
        filled.append(path)
    return filled


def _is_zero(device: Device, tensor: torch.Tensor) -> bool:
    host = device.to_host(tensor)
    with outside_modes():
        return not bool(host.count_nonzero())
