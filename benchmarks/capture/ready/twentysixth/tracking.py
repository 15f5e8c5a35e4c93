"""State estimation, monitoring and staged models."""
import collections
import time

import torch
from torch import nn
from graphsafe import Step


def _refresh(args, kwargs, k):
    args[0].normal_()


class Tracker:
    def __init__(self, n, device):
        self.state = torch.zeros(n, device=device)
        self.estimate = self.kept = None

    def update(self, seen):
        self.state.mul_(0.8).add_(seen)
        self.estimate = self.state * 1.01
        return self.estimate

    def checkpoint(self):
        if self.kept is not None:
            self.state.copy_(self.kept)
        self.kept = self.estimate


def build_tracker(device):
    tracker = Tracker(12, device)
    return Step(tracker.update, (torch.randn(12, device=device),), refresh=_refresh, events={"checkpoint": tracker.checkpoint})


class Centred:
    def __init__(self, n, device, period=0.05):
        self.centre = torch.zeros(n, device=device)
        self.period, self.at = period, 0.0

    def __call__(self, x):
        now = time.perf_counter()
        if now - self.at > self.period:
            self.centre.lerp_(x.mean(0), 0.5)
            self.at = now
        return x - self.centre


def build_centred(device):
    return Step(Centred(6, device), (torch.randn(20, 6, device=device),), refresh=_refresh)


class Monitored(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.net = nn.Linear(8, 8, device=device)
        self.register_buffer("mean", torch.zeros(8, device=device))

    def forward(self, x):
        if not torch.cuda.is_current_stream_capturing():
            self.mean.lerp_(x.mean(0), 0.05)
        return self.net(x - self.mean)


def build_monitored(device):
    return Step(Monitored(device).requires_grad_(False), (torch.randn(10, 8, device=device),), refresh=_refresh)


class Counted(torch.Tensor):
    calls = collections.Counter()

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.calls[getattr(func, "__name__", str(func))] += 1
        return super().__torch_function__(func, types, args, kwargs or {})


def build_counted(device):
    weight = torch.randn(8, 8, device=device)

    def forward(x):
        h = x.as_subclass(Counted)
        h = (h @ weight).relu() - h.mean(0)
        return torch.nn.functional.layer_norm(h, (8,)).as_subclass(torch.Tensor)

    return Step(forward, (torch.randn(10, 8, device=device),), refresh=_refresh)


class Done(Exception):
    pass


class Staged(nn.Module):
    def __init__(self, depth, exit_at, device):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(8, 8, device=device) for _ in range(depth))
        self.exit_at = exit_at

    def stages(self, x):
        for number, block in enumerate(self.blocks):
            x = x + block(x).tanh()
            yield number, x

    def visit(self, number, x):
        if number == self.exit_at:
            raise Done(x)

    def forward(self, x):
        try:
            for number, h in self.stages(x):
                self.visit(number, h)
        except Done as done:
            h = done.args[0] * 0.5
        return h


def build_staged(device):
    return Step(Staged(5, 3, device).requires_grad_(False), (torch.randn(10, 8, device=device),), refresh=_refresh)


class Ramped:
    def __init__(self, device):
        self.level, self.top = 0, 2
        self.state = torch.zeros(8, device=device)

    def __call__(self, x):
        self.level = min(self.level + 1, self.top)
        self.state.mul_(0.5).add_(x.mean(0), alpha=0.5 * self.level)
        return x + self.state


def build_ramped(device):
    return Step(Ramped(device), (torch.randn(10, 8, device=device),), refresh=_refresh)
