"""Tensors of a subclass with its own `__torch_function__` on the simulated device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

from graphsafe.capture.device.sim import SimDevice


class Pose(torch.Tensor):
    """A tensor that hands each call on, as classes of rotations and of named dimensions do."""

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return super().__torch_function__(func, types, args, kwargs or {})


@pytest.mark.parametrize(
    "call",
    [
        lambda x: torch.autograd.grad((x * 2).sum(), x)[0],
        lambda x: torch.nn.functional.relu(x),
        lambda x: torch.einsum("i,i->i", x, x),
        lambda x: torch.stack([x, x]),
    ],
    ids=["grad", "relu", "einsum", "stack"],
)
def test_functions_return_the_subclass_and_its_values(sim: SimDevice, call: Callable[[torch.Tensor], Any]) -> None:
    def pose(device: str) -> torch.Tensor:
        return torch.ones(3, device=device).as_subclass(Pose).requires_grad_()

    expected = call(pose("cpu"))
    with sim.entered():
        made = call(pose("cuda:1"))
        device, values = made.device, made.tolist()
    assert type(made) is type(expected) is Pose
    assert (device, values) == (torch.device("cuda:1"), expected.tolist())
