"""Motion models, built once on the device."""

from typing import NamedTuple

import torch


class Motion(NamedTuple):
    transition: torch.Tensor
    process: torch.Tensor
    observe: torch.Tensor
    noise: torch.Tensor


MODELS = {}


def model(fn):
    MODELS[fn.__name__] = fn
    return fn


@model
def constant_velocity(dt: float, device) -> Motion:
    block = torch.tensor([[1.0, dt], [0.0, 1.0]])
    transition = torch.block_diag(block, block)
    observe = torch.tensor([[1.0, 0, 0, 0], [0, 0, 1.0, 0]])
    return Motion(*(t.to(device) for t in (transition, 0.05 * torch.eye(4), observe, 0.4 * torch.eye(2))))


@model
def damped(dt: float, device) -> Motion:
    base = constant_velocity(dt, device)
    return base._replace(transition=base.transition * 0.99)
