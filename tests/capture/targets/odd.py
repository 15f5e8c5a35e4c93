"""Targets whose objects break whoever looks at them, and tensors of every kind. The steps themselves are sound unless
their name says otherwise."""

import collections
import functools
import importlib
import os
import sys
import tempfile
import types

import torch
from torch import nn


def floats(device, *shape):
    return torch.linspace(-1, 1, 8, device=device).reshape(shape or (8,)).clone()


# TorchScript.


def scripted(device):
    return torch.jit.script(nn.Linear(8, 8).requires_grad_(False)).to(device), (floats(device),)


def traced(device):
    module = nn.Sequential(nn.Linear(8, 8), nn.ReLU()).to(device).requires_grad_(False)
    return torch.jit.trace(module, floats(device)), (floats(device),)


class HoldsScripted(nn.Module):
    """Beside the step: nothing runs the scripted part."""

    def __init__(self):
        super().__init__()
        self.part = torch.jit.script(nn.Linear(8, 8))
        self.scale = nn.Parameter(torch.ones(8), requires_grad=False)

    def forward(self, x):
        return x * self.scale


def scripts_when_built(device):
    def softmax(x: torch.Tensor):
        return nn.functional.softmax(x, dim=-1)

    step = HoldsScripted()
    step.function = torch.jit.script(softmax)
    return step.to(device), (floats(device),)


def holds_scripted(device):
    return HoldsScripted().to(device), (floats(device),)


# Tensors that wrap tensors.


class Quantised(torch.Tensor):
    @staticmethod
    def __new__(cls, data, scale):
        return torch.Tensor._make_wrapper_subclass(cls, data.shape, dtype=scale.dtype, device=data.device)

    def __init__(self, data, scale):
        self.data8, self.scale = data, scale

    def __tensor_flatten__(self):
        return ["data8", "scale"], None

    @classmethod
    def __tensor_unflatten__(cls, inner, context, size, stride):
        return cls(inner["data8"], inner["scale"])

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        if func is torch.ops.aten.detach.default:
            return cls(args[0].data8, args[0].scale)
        plain = [arg.data8 * arg.scale if isinstance(arg, Quantised) else arg for arg in args]
        return func(*plain, **(kwargs or {}))


class Sealed(Quantised):
    """Does not say what it is made of."""

    __tensor_flatten__ = None


def _eighths(device):
    return torch.arange(8, device=device).to(torch.int8), floats(device) / 8


def wrapped_state(device):
    weight = Quantised(*_eighths(device))
    return (lambda x: x * weight), (floats(device),)


def wrapped_input(device):
    return (lambda x, weight: x * weight), (floats(device), Quantised(*_eighths(device)))


def wrapped_output(device):
    scale = floats(device)
    return (lambda x: Quantised(x.to(torch.int8), scale * 2)), (floats(device) * 40,)


def sealed_state(device):
    weight = Sealed(*_eighths(device))
    return (lambda x: x * weight), (floats(device),)


def sealed_output(device):
    scale = floats(device)
    return (lambda x: (x * 2, Sealed(x.to(torch.int8), scale * 2))), (floats(device) * 40,)


# Other tensors that are no plain ones.


def sparse_weight(device):
    weight = torch.eye(8, device=device).to_sparse_csr()
    return (lambda x: weight @ x), (floats(device, 8, 1),)


def sparse_state(device):
    kept = torch.eye(8, device=device).to_sparse()
    step = functools.partial(lambda kept, x: x + 1, kept)
    return step, (floats(device),)


def nested_state(device):
    kept = [torch.nested.nested_tensor([floats(device)[:2], floats(device)[:3]], layout=layout)
            for layout in (torch.strided, torch.jagged)]  # fmt: skip
    return functools.partial(lambda kept, x: x + 1, kept), (floats(device),)


def odd_types(device):
    kept = [
        floats(device).to(torch.float8_e4m3fn),
        torch.arange(8, device=device).to(torch.uint16),
        torch.zeros(8, dtype=torch.uint8, device=device).view(torch.bits8),
        torch.empty(3, device="meta"),
        torch.empty(0, 4, device=device),
    ]
    return functools.partial(lambda kept, x: x + kept[1].to(torch.float32), kept), (floats(device),)


def odd_outputs(device):
    def step(x):
        return {
            "float8": x.to(torch.float8_e4m3fn),
            "uint32": (x * 4 + 8).to(torch.uint32),
            "complex32": torch.complex(x.half(), x.half()),
            "bits": x.to(torch.uint8).view(torch.bits8),
            "nothing": x[:0],
            "number": x.sum(),
            "meta": torch.empty(3, device="meta"),
        }

    return step, (floats(device) + 1,)


def shared_memory(device):
    memory = torch.arange(64.0, device=device)
    whole, part, rows = memory[8:24], memory[12:20], memory[:8].expand(4, 8)

    def step(x, spread):
        whole.add_(x.sum())
        return part * x + rows + spread

    return step, (floats(device), floats(device, 8, 1)[:1].expand(1, 8).expand(4, 8))


def windows(device):
    return (lambda x: x.sum(-1)), (torch.linspace(0, 1, 10, device=device).unfold(0, 3, 1),)


# Objects that raise or lie.


class Hostile:
    def __init__(self, device):
        self.scale = floats(device)
        self.step = 0

    def _refuse(self, *args):
        raise RuntimeError("nothing may ask this")

    __repr__ = __str__ = __len__ = __iter__ = __eq__ = __hash__ = __bool__ = __getattr__ = __contains__ = _refuse
    __class__ = shape = property(_refuse)

    def __call__(self, x):
        return x * self.scale


def hostile(device):
    return Hostile(device), (floats(device),)


def hostile_argument(device):
    return (lambda x, other: x * 2), (floats(device), Hostile(device))


def hostile_output(device):
    other = Hostile(device)
    return (lambda x: (x * 2, other)), (floats(device),)


class Untold(Exception):
    def __str__(self):
        raise RuntimeError("no text")

    __repr__ = __str__

    def __eq__(self, other):
        raise RuntimeError("no comparison")

    __hash__ = None


def untold_error(device):
    def step(x):
        raise Untold

    return step, (floats(device),)


def untold_error_in_capture(device):
    def step(x):
        if torch.cuda.is_current_stream_capturing():
            raise Untold from Untold()
        return x * 2

    return step, (floats(device),)


def surrogate_error(device):
    raise ValueError("a lone surrogate: \ud800")


class Odd:
    """What cannot be written."""


def unwritable(device):
    odd = Odd()
    odd.huge = 10**5_000
    odd.text = "\ud800" * 3
    odd.numbers = {float("nan"): 1, float("nan"): 2}
    setattr(odd, "\udcff", 1)
    return (lambda x, odd: x * 2), (floats(device), odd)


def hostile_module_table(device):
    class Hook:
        @property
        def __file__(self):
            raise RuntimeError("no file")

        def __getattr__(self, name):
            raise RuntimeError(name)

    sys.modules["odd_hook"] = Hook()
    sys.modules["odd_string"] = "not a module"
    made = type("Made", (), {"__module__": "odd_hook"})()
    return (lambda x, made: x + 1), (floats(device), made)


# Shapes of data that take for ever.


def contains_itself(device):
    loop = [floats(device)]
    loop.append(loop)
    table = {"x": loop}
    table["table"] = table
    return (lambda loop, table: loop[0] * 2), (loop, table)


class Node:
    def __init__(self, number):
        self.number = number
        self.label = "node"


def many_objects(device):
    """More objects than are looked at. That number is lowered here, for dozens of walks over so many take a minute."""
    walk = importlib.import_module("graphsafe.capture.child.state.walk")
    walk.MOST_OBJECTS = 2_000
    nodes = [Node(number) for number in range(8_000)]
    return functools.partial(lambda nodes, x: x * 2, nodes), (floats(device),)


def many_inputs(device):
    def step(parts):
        return torch.stack(parts).sum(0)

    return step, ([floats(device) * number for number in range(1, 601)],)


# The world around.


def removed_folder(device):
    folder = tempfile.mkdtemp()
    os.chdir(folder)
    os.rmdir(folder)
    return (lambda x: x * 2), (floats(device),)


def removed_folder_and_error(device):
    removed_folder(device)
    raise ValueError("no weights here")


def removed_folder_and_read(device):
    removed_folder(device)
    return (lambda x: x * x.sum().item()), (floats(device),)


class Counting:
    looked = 0

    @property
    def last(self):
        Counting.looked += 1
        raise AssertionError("the walk runs properties")

    @functools.cached_property
    def made(self):
        Counting.looked += 1
        return 1

    def __call__(self, x):
        return x + Counting.looked


def properties(device):
    return Counting(), (floats(device),)


def lazy_module(device):
    return nn.LazyLinear(4, device=device), (floats(device),)


def frozen_mapping(device):
    kept = types.MappingProxyType({"scale": floats(device)})
    chained = collections.ChainMap({"bias": floats(device)})
    return functools.partial(lambda kept, chained, x: x * kept["scale"] + chained["bias"], kept, chained), (
        floats(device),
    )


# Code without a file, and code that only a GPU compiles.


def made_of_text(device):
    made = {}
    exec("def step(x):\n    return x * x.sum().item()", made)
    return made["step"], (floats(device),)


def compiled(device):
    return torch.compile(nn.Linear(8, 8).to(device), mode="reduce-overhead"), (floats(device, 1, 8),)
