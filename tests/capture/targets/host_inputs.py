"""Steps that read inputs which lie on the host: a graph keeps the value that Python read at capture."""

from __future__ import annotations

import ctypes
import queue
from array import array
from types import SimpleNamespace
from typing import Any

import numpy
import torch

import graphsafe

Built = tuple[Any, tuple[Any, ...]]


def build_divided(device: torch.device) -> Built:
    return lambda x, t: x / t, (torch.randn(8, device=device), torch.tensor(0.7))


def build_as_float(device: torch.device) -> Built:
    return lambda x, t: x * float(t), (torch.randn(8, device=device), torch.tensor(0.7))


def build_flag(device: torch.device) -> Built:
    return lambda x, flag: x * 2 if flag else x * 3, (torch.randn(8, device=device), torch.tensor(False))


def build_threshold(device: torch.device) -> Built:
    """Only a value far from the one given takes the other branch."""
    return lambda x, t: x * 2 if t > 50 else x * 3, (torch.randn(8, device=device), torch.tensor(0.7))


def build_array(device: torch.device) -> Built:
    return lambda x, a: x * float(a[1]), (torch.randn(8, device=device), numpy.array([1.0, 2.0, 3.0]))


def build_buffers(device: torch.device) -> Built:
    """An array of Python's own and bytes, as a tokenizer or a socket gives them."""
    lengths, flags = array("i", [3, 5]), bytearray([1, 0])
    return lambda x, n, f: x[: n[0]].sum() * f[0] + x[: n[1]].sum(), (torch.randn(8, device=device), lengths, flags)


def build_queue(device: torch.device) -> Built:
    """Nobody but the program knows what comes out of a queue next."""
    waiting: queue.SimpleQueue[float] = queue.SimpleQueue()
    waiting.put(2.0)

    def step(x: torch.Tensor, requests: queue.SimpleQueue[float]) -> torch.Tensor:
        scale = requests.get()
        requests.put(scale)
        return x * scale

    return step, (torch.randn(8, device=device), waiting)


class Control:
    def __init__(self) -> None:
        self.rows = ctypes.c_int(3)


def build_control(device: torch.device) -> Built:
    return (lambda x, control: x[: control.rows.value].sum()), (torch.randn(8, device=device), Control())


def build_records(device: torch.device) -> Built:
    table = numpy.array([(3, 0.5)], dtype=[("rows", "i4"), ("scale", "f4")])
    return lambda x, t: x[: t["rows"][0]] * float(t["scale"][0]), (torch.randn(8, device=device), table)


def build_list(device: torch.device) -> Built:
    scales = [torch.tensor(0.5), torch.tensor(0.25)]
    return lambda x, s: x * s[0] + s[1], (torch.randn(8, device=device), scales)


def build_stubborn(device: torch.device) -> Built:
    """Accepts one value alone: it cannot be varied, so nothing proves that replay would follow it."""

    def step(x: torch.Tensor, version: torch.Tensor) -> torch.Tensor:
        if int(version) != 3:
            raise ValueError("no such version")
        return x * int(version)

    return step, (torch.randn(8, device=device), torch.tensor(3))


def build_far_threshold(device: torch.device) -> Built:
    """Only a value that no proposal comes near takes the other branch."""
    return lambda x, n: x * (2 if int(n) > 123_456 else 1), (torch.randn(8, device=device), torch.tensor(3))


def build_unread(device: torch.device) -> Built:
    return lambda x, n: x * 2, (torch.randn(8, device=device), torch.tensor(3))


def build_only_its_shape(device: torch.device) -> Built:
    return lambda x, n: x * n.shape[0] + n.dim(), (torch.randn(8, device=device), torch.ones(3))


def build_sigma(device: torch.device) -> Built:
    """Sound: a constant on the device, as a scheduler's sigma; varied, and replay follows it."""
    return lambda x, sigma: x / sigma, (torch.randn(8, device=device), torch.tensor(0.7, device=device))


def build_guidance(device: torch.device) -> Built:
    """Sound: all elements alike, and a Python number, which is a constant by contract."""
    guidance = torch.full((4, 1), 7.5, device=device)
    return lambda x, g, power: x * g**power, (torch.randn(4, 8, device=device), guidance, 2)


def build_rarely_binding(device: torch.device) -> Built:
    """A flag that changes what is launched, and no output on the inputs that are drawn."""

    def step(x: torch.Tensor, clip: torch.Tensor) -> torch.Tensor:
        y = torch.sigmoid(x)
        return y.clamp(-10, 10) if bool(clip) else y

    return step, (torch.randn(8, device=device), torch.tensor(True))


def build_lagged_flag(device: torch.device) -> Built:
    """The host branches on a flag in pinned memory that an earlier step wrote; the drawn inputs never set it."""
    flag = torch.zeros(1, dtype=torch.bool).pin_memory()

    def step(x: torch.Tensor) -> torch.Tensor:
        scale = 0.5 if bool(flag[0]) else 1.0
        y = torch.tanh(x) * scale
        flag.copy_((y.abs() > 2).any().reshape(1), non_blocking=True)
        return y

    return step, (torch.randn(8, device=device),)


def build_logged_flag(device: torch.device) -> Built:
    """Sound: the host only logs what the last step left in pinned memory."""
    largest = torch.zeros(1).pin_memory()
    seen: list[float] = []

    def step(x: torch.Tensor) -> torch.Tensor:
        seen.append(float(largest[0]))
        y = torch.tanh(x)
        largest.copy_(y.max().reshape(1), non_blocking=True)
        return y

    return step, (torch.randn(8, device=device),)


def build_namespace(device: torch.device) -> Built:
    knobs = SimpleNamespace(scale=torch.tensor(0.5))
    return lambda x, knobs: x * float(knobs.scale), (torch.randn(8, device=device), knobs)


class Tone:
    def __init__(self) -> None:
        self.gamma = torch.tensor(2.2)


class Settings:
    """A plain object with another one inside, as an engine hands them to its step."""

    def __init__(self) -> None:
        self.tone = Tone()


def build_settings(device: torch.device) -> Built:
    return lambda x, settings: x.abs() ** (1 / settings.tone.gamma), (torch.randn(8, device=device), Settings())


class Request:
    def __init__(self, device: torch.device) -> None:
        self.hidden = torch.randn(4, 8, device=device)


def build_request(device: torch.device) -> Built:
    """Sound: the only input lies inside an object of the user's own class."""
    layer = torch.nn.Linear(8, 8).to(device)
    return lambda request: torch.tanh(layer(request.hidden)).detach(), (Request(device),)


def build_share(device: torch.device) -> Built:
    """The share of one weight is always 1; that of a weight of zero is no number."""

    def step(x: torch.Tensor, weights: Any) -> torch.Tensor:
        return x.add(x.roll(1), alpha=float((weights / weights.sum())[0]))

    return step, (torch.randn(8, device=device), numpy.array([0.6]))


def build_left_alone(device: torch.device) -> Any:
    """Faulty: the refresh leaves the lengths alone, but the step cuts at their values."""
    layer = torch.nn.Linear(8, 8).to(device).requires_grad_(False)

    def step(packed: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        return torch.stack([rows.mean(0) for rows in layer(packed).split(lengths.tolist())])

    args = (torch.randn(24, 8, device=device), torch.tensor([5, 9, 3, 7]))
    return graphsafe.Step(step, args, refresh=lambda args, kwargs, k: args[0].normal_())


def build_written(device: torch.device) -> Built:
    """Sound: the step returns nothing and writes its result into an argument."""

    def step(x: torch.Tensor, out: torch.Tensor) -> None:
        torch.mul(x, torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6), out=out)

    return step, (torch.randn(4, 8, device=device), torch.empty(4, 8, device=device))
