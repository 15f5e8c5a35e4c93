"""A step full of instrumentation: profiler ranges, a stack of names, garbage collection now and then, a trace
of shapes."""

import contextlib
import gc

import torch
from torch.profiler import record_function

import graphsafe


class Trace:
    def __init__(self):
        self.stack, self.seen, self.calls = [], {}, 0

    @contextlib.contextmanager
    def range(self, name):
        self.stack.append(name)
        with record_function("/".join(self.stack)):
            yield
        self.stack.pop()

    def note(self, x):
        key = ("/".join(self.stack), tuple(x.shape), x.stride())
        self.seen[key] = self.seen.get(key, 0) + 1
        return x


def build(device):
    trace = Trace()
    a, b = torch.randn(16, 32, device=device) / 4, torch.randn(32, 16, device=device) / 4

    def step(x):
        trace.calls += 1
        with trace.range("block"):
            with trace.range("up"):
                h = trace.note(torch.relu(x @ a))
            with trace.range("down"):
                x = trace.note(x + h @ b)
        if trace.calls % 50 == 0:
            gc.collect()
        return x

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(4, 16))

    return graphsafe.Step(step, (torch.randn(4, 16, device=device),), refresh=refresh)
