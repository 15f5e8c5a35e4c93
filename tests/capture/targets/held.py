"""Steps whose results and state are in objects of torch and of Python, and sound twins of them."""

from __future__ import annotations

import queue
from collections.abc import Callable
from typing import Any

import torch
from torch.distributions import Normal

import graphsafe

Built = graphsafe.Step


def _step(fn: Callable[..., Any], device: torch.device, between: Callable[[int], object] = lambda k: None) -> Built:
    def refresh(args: tuple[torch.Tensor], kwargs: object, k: int) -> None:
        args[0].copy_(torch.randn(8))
        between(k)

    return graphsafe.Step(fn, (torch.randn(8, device=device),), refresh=refresh)


class Rate:
    """A rate that the loop changes: a number, which a graph keeps, or a tensor, which it reads."""

    def __init__(self, device: torch.device, is_tensor: bool) -> None:
        self.value: Any = torch.full((), 0.5, device=device) if is_tensor else 0.5

    def change(self, k: int) -> None:
        if isinstance(self.value, float):
            self.value = 0.5 / k
        else:
            self.value.fill_(0.5 / k)


class Meter:
    def __init__(self, name: str, device: torch.device, is_tensor: bool) -> None:
        self.name = name
        self.rate = Rate(device, is_tensor)
        self.mean = torch.zeros((), device=device)

    def __call__(self, value: torch.Tensor) -> None:
        self.mean.lerp_(value.mean(), self.rate.value)


def with_rate(result: Callable[[torch.Tensor, Any], Any], is_tensor: bool) -> Callable[[torch.device], Built]:
    """Return a factory of a step that returns `result` of its input and of a rate."""

    def build(device: torch.device) -> Built:
        rate = Rate(device, is_tensor)
        return _step(lambda x: (x * 2, result(x, rate.value)), device, rate.change)

    return build


def spread(x: torch.Tensor, rate: Any) -> Normal:
    return Normal(x, torch.ones_like(x) * rate, validate_args=False)


def view(x: torch.Tensor, rate: Any) -> Any:
    return {"double": x * 2, "scaled": x * rate}.values()


build_distribution, build_distribution_of_tensor = with_rate(spread, False), with_rate(spread, True)
build_view, build_view_of_tensor = with_rate(view, False), with_rate(view, True)
build_zip = with_rate(lambda x, rate: zip([x * 3], [x * 4], strict=True), True)
build_generator = with_rate(lambda x, rate: (part for part in (x * 3, x * rate)), True)
build_like_elements = with_rate(lambda x, rate: {x * 3, x * rate}, True)
build_future = with_rate(lambda x, rate: torch.futures.Future(), True)
build_empty_iterator = with_rate(lambda x, rate: iter("text"), True)


def meters_in_set(is_tensor: bool) -> Callable[[torch.device], Built]:
    def build(device: torch.device) -> Built:
        first, second = (Meter(name, device, is_tensor) for name in ("first", "second"))
        second.mean.add_(1.0)
        meters = {first, second}

        def step(x: torch.Tensor) -> torch.Tensor:
            for meter in meters:
                meter(x if meter.name == "first" else x * 2)
            return x * 2

        return _step(step, device, lambda k: [meter.rate.change(k) for meter in meters])

    return build


def hook(is_tensor: bool) -> Callable[[torch.device], Built]:
    def build(device: torch.device) -> Built:
        weight = torch.nn.Parameter(torch.ones(8, device=device))
        meter = Meter("gradient", device, is_tensor)
        weight.register_hook(meter)

        def step(x: torch.Tensor) -> torch.Tensor:
            return torch.autograd.grad((weight * x).square().sum(), weight)[0]

        return _step(step, device, meter.rate.change)

    return build


def prior(is_tensor: bool) -> Callable[[torch.device], Built]:
    def build(device: torch.device) -> Built:
        made = Normal(torch.zeros(8, device=device), torch.ones(8, device=device), validate_args=False)
        rate = Rate(device, is_tensor)

        def step(x: torch.Tensor) -> Any:
            made.loc.lerp_(x, rate.value)
            return -made.log_prob(x), made.loc if is_tensor else None

        return _step(step, device, rate.change)

    return build


build_meters_in_set, build_meters_of_tensors_in_set = meters_in_set(False), meters_in_set(True)
build_hook, build_hook_of_tensor = hook(False), hook(True)
build_prior, build_prior_of_tensor = prior(False), prior(True)


def losses(is_put_by_step: bool) -> Callable[[torch.device], Built]:
    def build(device: torch.device) -> Built:
        mailbox: queue.SimpleQueue[torch.Tensor] = queue.SimpleQueue()
        loss = torch.zeros((), device=device)

        def step(x: torch.Tensor) -> None:
            loss.copy_(x.square().mean())
            if is_put_by_step:
                mailbox.put(loss.clone())

        def between(k: int) -> None:
            if not is_put_by_step:
                mailbox.put(loss.clone())
            while not mailbox.empty():
                mailbox.get()

        return _step(step, device, between)

    return build


build_losses, build_losses_put_by_loop = losses(True), losses(False)


def build_scaled_training(device: torch.device) -> Built:
    """A training step in mixed precision. Its scaler of gradients makes its tensors in the first step."""
    net = torch.nn.Linear(8, 2).to(device)
    is_gpu = device.type == "cuda"
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01, fused=True, capturable=is_gpu)
    scaler = torch.amp.GradScaler(device.type, init_scale=1024.0, growth_interval=40)

    def step(x: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device.type, dtype=torch.float16 if is_gpu else torch.bfloat16):
            loss = net(x).float().square().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss.detach()

    return _step(step, device)
