"""Steps of training with a refresh that drops gradients before each step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

import graphsafe


class _Training:
    def __init__(self, device: torch.device, optimizes: bool = True) -> None:
        self.model: Any = nn.Linear(8, 4).to(device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05)
        self.optimizes = optimizes

    def step(self, inputs: Tensor, target: Tensor) -> Tensor:
        loss = (self.model(inputs) - target).square().mean()
        loss.backward()
        if self.optimizes:
            self.optimizer.step()
        return loss.detach()

    def target(
        self, before: Callable[[int], Any] = lambda k: None, drops: Callable[[int], bool] = lambda k: True
    ) -> Any:
        device = next(self.model.parameters()).device

        def refresh(args: tuple[Tensor, Tensor], kwargs: object, k: int) -> None:
            before(k)
            if drops(k):
                self.optimizer.zero_grad(set_to_none=True)
            for one in args:
                one.copy_(torch.randn(one.shape))

        return graphsafe.Step(
            self.step, (torch.randn(6, 8, device=device), torch.randn(6, 4, device=device)), refresh=refresh
        )


def build_dropped(device: torch.device) -> Any:
    return _Training(device).target()


def build_channels_last(device: torch.device) -> Any:
    """A parameter that is not contiguous."""
    training = _Training(device)
    training.model = nn.Sequential(
        nn.Unflatten(1, (2, 2, 2)), nn.Conv2d(2, 4, 2).to(memory_format=torch.channels_last), nn.Flatten()
    ).to(device)
    training.optimizer = torch.optim.SGD(training.model.parameters(), lr=0.05)
    return training.target()


def build_not_always(device: torch.device) -> Any:
    return _Training(device).target(drops=lambda k: k % 4 != 0)


def build_not_later(device: torch.device) -> Any:
    return _Training(device).target(drops=lambda k: k < 40)


def build_without_optimizer(device: torch.device) -> Any:
    """The gradients are results of the step."""
    return _Training(device, optimizes=False).target()


def build_optimized_by_loop(device: torch.device) -> Any:
    training = _Training(device, optimizes=False)
    return training.target(before=lambda k: training.optimizer.step())


def build_logged(device: torch.device) -> Any:
    """The refresh reads the gradients, which it would not find after replays."""
    training, norms = _Training(device), list[Tensor]()

    def log(k: int) -> None:
        if training.model.weight.grad is not None:
            norms.append(training.model.weight.grad.norm())

    return training.target(before=log)


def build_kept(device: torch.device) -> Any:
    """The loop keeps the last gradient, and it would not find it after replays."""
    training, kept = _Training(device), dict[str, Tensor | None]()
    return training.target(before=lambda k: kept.update(last=training.model.weight.grad))


def _counting(device: torch.device, gradient: Callable[[Any, Tensor], Tensor]) -> Any:
    """A step whose learning rate depends on a count in Python. `gradient` returns the new gradient."""
    model: Any = nn.Linear(8, 4).to(device)
    count = {"step": 0}

    def step(inputs: Tensor) -> Tensor:
        count["step"] += 1
        (new,) = torch.autograd.grad(model(inputs).square().mean(), model.weight)
        with torch.no_grad():
            model.weight.grad = gradient(model.weight, new)
            scaled = model.weight.grad.add(new, alpha=0.5)
            model.weight.sub_(scaled, alpha=1 / count["step"])
        return scaled

    return step, (torch.randn(6, 8, device=device),)


def build_own_dropped(device: torch.device) -> Any:
    """The step replaces its gradients, and does not read the old ones."""
    return _counting(device, lambda weight, new: new)


def build_own_carried(device: torch.device) -> Any:
    """The step adds to its old gradients, in other memory."""
    return _counting(device, lambda weight, new: new if weight.grad is None else weight.grad * 0.9 + new)


def build_own_handed_on(device: torch.device) -> Any:
    """The step gives the weight the memory of a copy, and does not read the earlier copy."""
    model: Any = nn.Linear(8, 4).to(device)
    kept: dict[str, Tensor] = {}

    def step(inputs: Tensor) -> Tensor:
        with torch.no_grad():
            kept["copy"] = model.weight.clone()
            kept["copy"].mul_(0.9)
            for weight in [model.weight]:
                weight.data = kept["copy"]
            return model(inputs)

    return step, (torch.randn(6, 8, device=device),)


def build_own_scheduled(device: torch.device) -> Any:
    """PyTorch changes the rate, and notes hidden values under a name. No operation reads the noted values."""
    training = _Training(device)
    schedule = torch.optim.lr_scheduler.LambdaLR(training.optimizer, lambda count: 1 / (count + 1))
    noted: dict[str, Tensor] = {}
    training.model.register_forward_hook(lambda module, given, made: noted.__setitem__("made", made.detach()))

    def step(inputs: Tensor, target: Tensor) -> Tensor:
        loss = training.step(inputs, target)
        training.optimizer.zero_grad(set_to_none=True)
        schedule.step()
        return loss

    return step, (torch.randn(6, 8, device=device), torch.randn(6, 4, device=device))
