"""Steps whose refresh, reset or event raises: `FAILS` says of each which line the report names."""

import torch
from torch import nn

import graphsafe

FAILS = {
    "refresh": "refresh failed: ValueError: no more batches (failing_parts.py:32)",
    "signature": "refresh failed: TypeError: signature.<locals>.<lambda>() takes 1 positional argument",
    "reset": "reset failed: OSError: the file is gone (failing_parts.py:44)",
    "event": "the event 'reload' failed: KeyError: 'weights.pt' (failing_parts.py:51)",
    "after_event": "after the event 'reload' the step failed: RuntimeError: no weights (failing_parts.py:62)",
    "no_function": "the Step's event 'reload' cannot be called: it has the type int",
    "no_tuple": "the Step's args and kwargs are a Tensor and a dict, not a tuple and a dictionary",
}


def parts(device):
    return nn.Linear(4, 4).to(device), (torch.randn(2, 4, device=device),)


def new_inputs(args, kwargs, k):
    args[0].copy_(torch.randn(2, 4))


def refresh(device):
    layer, args = parts(device)

    def batches(args, kwargs, k):
        if k == 3:
            raise ValueError("no more batches")
        new_inputs(args, kwargs, k)

    return graphsafe.Step(layer, args, refresh=batches)


def signature(device):
    return graphsafe.Step(*parts(device), refresh=lambda k: None)


def reset(device):
    def back():
        raise OSError("the file is gone")

    return graphsafe.Step(*parts(device), refresh=new_inputs, reset=back)


def event(device):
    def reload():
        raise KeyError("weights.pt")

    return graphsafe.Step(*parts(device), refresh=new_inputs, events={"sound": lambda: None, "reload": reload})


def after_event(device):
    layer, args = parts(device)
    reloads = []

    def step(x):
        if reloads:
            raise RuntimeError("no weights")
        return layer(x)

    return graphsafe.Step(step, args, events={"reload": lambda: reloads.append(True)})


def no_function(device):
    return graphsafe.Step(*parts(device), events={"reload": 1})


def no_tuple(device):
    layer, args = parts(device)
    return graphsafe.Step(layer, args[0])


def event_in_capture(device):
    """An event that fails after the step was told that a capture is under way, and not without."""
    layer, args = parts(device)
    captured = []

    def step(x):
        if torch.cuda.is_current_stream_capturing():
            captured.append(True)
        return layer(x)

    def reload():
        if captured:
            raise RuntimeError("a graph holds the weights")

    return graphsafe.Step(step, args, refresh=new_inputs, events={"reload": reload})


def not_ready(device):
    """A step that no capture takes, beside a refresh that fails."""
    layer, args = parts(device)
    return graphsafe.Step(lambda x: layer(x) * x.sum().item(), args, refresh=lambda args, kwargs, k: 1 / 0)
