"""Callables of unusual kinds."""
import contextlib
import functools
import logging
import time
from collections import Counter, deque

import torch
import torch.nn.functional as F
from graphsafe import Step
from torch import nn
from torch.utils.checkpoint import checkpoint

log = logging.getLogger(__name__)


class Rescale:
    table = None

    @staticmethod
    def __call__(x):
        return (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-5)


def blend(x, y, *, weight, bias):
    return torch.lerp(x, y, weight) + bias


class Proxy:
    def __init__(self, inner):
        self.__dict__["inner"] = inner

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def __call__(self, *args, **kwargs):
        return self.inner(*args, **kwargs)


class Counted(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)
        self.calls, self.shapes, self.seen = 0, deque(maxlen=5), Counter()

    def forward(self, x):
        self.calls += 1
        self.shapes.append(tuple(x.shape))
        self.seen[x.dtype] += 1
        return self.fc(x).relu()


class Logged:
    def __init__(self, device):
        self.n, self.last = 0, time.perf_counter()
        self.w = torch.randn(8, 8, device=device)

    def __call__(self, x):
        begin = time.perf_counter()
        y = torch.tanh(x @ self.w)
        self.n += 1
        if self.n % 100 == 0:
            log.info("step %d, %.3f ms a step", self.n, (begin - self.last) * 10)
            self.last = begin
        return y


class Timed:
    def __init__(self, fn):
        self.fn, self.spent = fn, 0.0

    @contextlib.contextmanager
    def _clock(self):
        t = time.monotonic()
        try:
            yield
        finally:
            self.spent += time.monotonic() - t

    def __call__(self, *args):
        with self._clock(), contextlib.ExitStack() as stack:
            stack.enter_context(torch.no_grad())
            stack.callback(log.debug, "done")
            return self.fn(*args)


class Walk(nn.Module):
    def __init__(self, depth=4):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(depth))

    def order(self):
        yield from self.layers
        yield from reversed(self.layers)

    def forward(self, x):
        for layer in self.order():
            x = x + torch.tanh(layer(x))
        return x


class Hooked(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))
        self.sizes = []
        self.body[0].register_forward_hook(lambda m, a, out: self.sizes.append(out.numel()))
        self.body[2].register_forward_pre_hook(lambda m, a: (a[0] * 0.5,))

    def forward(self, x):
        return self.body(x)


class Recompute(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(16, 16), nn.Linear(16, 1)

    def _part(self, x):
        return torch.tanh(self.a(x))

    def forward(self, x):
        for p in self.parameters():
            p.grad = None
        loss = self.b(checkpoint(self._part, x, use_reentrant=False)).square().mean()
        loss.backward()
        return loss.detach(), self.a.weight.grad.clone()


class RecomputeMasked(Recompute):
    def _part(self, x):
        return F.dropout(torch.tanh(self.a(x)), 0.2)


class StraightThrough(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, levels):
        ctx.levels = levels
        return torch.round(x * levels) / levels

    @staticmethod
    def backward(ctx, g):
        return g.clamp(-1, 1), None


class Quantised(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(8, 8))

    def forward(self, x):
        y = x @ StraightThrough.apply(self.w, 16)
        return y, torch.autograd.grad(y.square().sum(), self.w)[0]


class HostConstant:
    """Keeps a 0-d scale on the CPU, never changed after construction."""

    def __init__(self, device):
        self.scale = torch.tensor(0.125)
        self.w = torch.randn(8, 8, device=device)

    def __call__(self, x):
        return (x @ self.w) * self.scale


def make_closure(device):
    layers = [torch.randn(8, 8, device=device) / 3 for _ in range(3)]

    def step(x, depth=3):
        def inner(y, i):
            return y if i == depth else inner(torch.tanh(y @ layers[i]), i + 1)

        return inner(x, 0)

    return step


def build_rescale(device):
    return Rescale(), (torch.randn(4, 8, device=device),)


def build_blend(device):
    return functools.partial(blend, weight=0.3, bias=1.0), (torch.randn(4, 8, device=device), torch.randn(4, 8, device=device))


def build_proxy(device):
    return Proxy(nn.Linear(8, 8).to(device)), (torch.randn(4, 8, device=device),)


def build_counted(device):
    return Counted().to(device), (torch.randn(4, 8, device=device),)


def build_logged(device):
    return Logged(device), (torch.randn(4, 8, device=device),)


def build_timed(device):
    w = torch.randn(8, 8, device=device)
    return Timed(lambda x: (x @ w).sigmoid()), (torch.randn(4, 8, device=device),)


def build_walk(device):
    return Walk().to(device), (torch.randn(4, 8, device=device),)


def build_hooked(device):
    return Hooked().to(device), (torch.randn(4, 8, device=device),)


def build_recompute(device):
    return Recompute().to(device), (torch.randn(4, 16, device=device),)


def build_recompute_masked(device):
    return RecomputeMasked().to(device), (torch.randn(4, 16, device=device),)


def build_quantised(device):
    return Quantised().to(device), (torch.randn(4, 8, device=device),)


def build_host_constant(device):
    return HostConstant(device), (torch.randn(4, 8, device=device),)


def build_closure(device):
    return make_closure(device), (torch.randn(4, 8, device=device),)


def build_refilled(device):
    buf = {"x": torch.randn(4, 8, device=device), "on": torch.ones(4, 1, device=device)}
    lin = nn.Linear(8, 8).to(device)

    def step():
        return lin(buf["x"]) * buf["on"]

    def refresh(args, kwargs, k):
        g = torch.Generator().manual_seed(k)
        buf["x"].copy_(torch.randn(4, 8, generator=g))
        buf["on"].copy_((torch.rand(4, 1, generator=g) > 0.5).float())

    return Step(step, (), refresh=refresh)
