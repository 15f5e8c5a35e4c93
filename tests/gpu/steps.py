"""The steps of a target on changed inputs, as replays of a CUDA graph or in one of several ways eagerly.

A target's factory returns `(fn, args)`, `(fn, args, kwargs)` or what has `fn args kwargs refresh`. Inputs change as
`CHANGE = {factory: change(args, kwargs, k)}` in its file says, or that `refresh`; else they are drawn anew within
their range.
"""

import contextlib
import gc
import inspect
import random
import warnings
from unittest import mock

import numpy as np
import torch
from torch.utils._pytree import tree_leaves

STEPS = 6  # on changed inputs; the last is made three times.


def tensors(value):
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def seed(number):
    for generator in (torch.manual_seed, random.seed, np.random.seed):
        generator(number)


def redraw(inputs, firsts, k):
    draw = torch.Generator().manual_seed(k)
    for tensor, first in zip(inputs, firsts, strict=True):
        new = first.flatten()[torch.randperm(first.numel(), generator=draw)].view_as(first)
        if first.is_floating_point():
            new = new * torch.rand(first.shape, generator=draw)
        elif first.dtype != torch.bool and first.unique().numel() == first.numel():
            new = first  # Offsets and positions: what else would be legal is for the target to say.
        tensor.detach().copy_(new)


def nudge(numbers):
    """Each by one unit in the last place."""
    for tensor in numbers:
        if tensor.is_floating_point():
            tensor.detach().mul_(1 + torch.finfo(tensor.dtype).eps)


def fill(numbers):
    """Those that are zero everywhere get small values: behind a head of zeros no output shows what a graph computes."""
    for tensor in numbers:
        if tensor.is_floating_point() and not tensor.any():
            tensor.detach().uniform_(-0.01, 0.01)


def play(file, factory, role, told):
    """Fills `told` while it goes, so that what was reached before an error is kept."""
    told["at"], told["gpu"] = "build", torch.cuda.is_available()
    gpu = told["gpu"]
    device, wait = torch.device("cuda:0" if gpu else "cpu"), torch.cuda.synchronize if gpu else lambda: None
    seed(0)
    make = getattr(file, factory)
    made = make(device) if inspect.signature(make).parameters else make()
    fn, args, *more = made if isinstance(made, tuple) else (made.fn, made.args, made.kwargs, made.refresh)
    kwargs, refresh = [*more, *[{}, None][len(more) :]]
    refresh = getattr(file, "CHANGE", {}).get(factory) or refresh
    module = fn if isinstance(fn, torch.nn.Module) else torch.nn.Module()
    fill(module.parameters())
    firsts = [tensor.detach().cpu().clone() for tensor in tensors([args, kwargs])]
    told["at"] = "generator"
    torch.rand(1, device=device)
    if role == "nudged":
        nudge(module.parameters())
    stream, graph = torch.cuda.Stream(device) if gpu else None, None
    told["at"] = "warm-up"
    wait()
    with torch.cuda.stream(stream):
        for k in range(0 if role == "fresh" else 3):
            seed(1000 + k)
            fn(*args, **kwargs)
        wait()
    seed(999)
    if role == "replay":
        told["at"], graph = "capture", torch.cuda.CUDAGraph()
        with warnings.catch_warnings(record=True) as said, torch.cuda.graph(graph, stream=stream):
            warnings.simplefilter("always")
            out = fn(*args, **kwargs)
        told["empty"] = any("Graph is empty" in str(warning.message) for warning in said)
    told["at"], told["steps"] = "steps", []
    asked = mock.patch("torch.cuda.is_current_stream_capturing", lambda: role in ("path", "again", "fresh"))
    with torch.cuda.stream(stream), contextlib.nullcontext() if graph else asked:
        for k in [STEPS] if role == "fresh" else [*range(1, STEPS + 1), STEPS, STEPS]:
            seed(k)
            with torch.no_grad():
                refresh(args, kwargs, k) if refresh else redraw(tensors([args, kwargs]), firsts, k)
            if role == "nudged":
                nudge(tensors([args, kwargs]))
            gc.collect()
            junk = [torch.full((2**n,), 7.0, device=device) for n in range(2, 20) for _ in range(4)]
            del junk
            seed(k)
            out = (graph.replay(), out)[1] if graph else fn(*args, **kwargs)
            wait()
            told["outputs"] = len(tensors(out))
            told["steps"].append(
                [tensor.detach().cpu().clone() for tensor in tensors([out, args, kwargs, *module.buffers()])]
            )
