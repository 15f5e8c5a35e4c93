"""A step whose engine reloads, grows and collects between replays, well and badly."""

import gc

import torch
from torch import nn

import graphsafe


class Engine(nn.Module):
    def __init__(self, device):
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(8, 8).to(device)
        self.scale = torch.ones(8, device=device)

    def forward(self, x):
        return self.linear(x) * self.scale

    def reload(self):
        with torch.no_grad():
            self.linear.weight.copy_(torch.randn_like(self.linear.weight))

    def replace(self):
        self.linear.weight = nn.Parameter(torch.randn_like(self.linear.weight))

    def reload_the_same(self):
        self.scale = torch.ones(8, device=self.scale.device)

    def grow(self):
        self.scale = torch.full_like(self.scale, 2.0)


def sound(device):
    engine = Engine(device)
    events = {"reload": engine.reload, "gc": gc.collect}
    return graphsafe.Step(engine, (torch.randn(4, 8, device=device),), events=events)


def stale(device):
    engine = Engine(device)
    events = {"gc": gc.collect, "replace": engine.replace, "grow": engine.grow}
    return graphsafe.Step(engine, (torch.randn(4, 8, device=device),), events=events)


def stale_with_equal_values(device):
    engine = Engine(device).requires_grad_(False)  # else autograd would hold the memory that the event lets go of
    events = {"reload": engine.reload_the_same, "gc": gc.collect}
    return graphsafe.Step(engine, (torch.randn(4, 8, device=device),), events=events)


def slept(device):
    """The event moves the weights to the host and back. The allocator may return the same memory."""
    engine = Engine(device).requires_grad_(False)

    def sleep_and_wake():
        engine.to("cpu")
        engine.to(device)
        engine.linear.weight.mul_(0.5)

    return graphsafe.Step(engine, (torch.randn(4, 8, device=device),), events={"sleep and wake": sleep_and_wake})


def failing(device):
    engine = Engine(device)
    return graphsafe.Step(engine, (torch.randn(4, 8, device=device),), events={"fail": lambda: 1 / 0})


class Attention(nn.Module):
    """Walks the cache page by page in short contexts, and at once in long ones: only the host knows the length."""

    def __init__(self, device):
        super().__init__()
        torch.manual_seed(0)
        self.cache = torch.randn(512, 8, device=device)
        self.longest = 1

    def forward(self, x):
        pages = 128 if self.longest < 32 else 1
        scores = [x @ page.T for page in self.cache.chunk(pages)]
        return torch.cat(scores, dim=-1)

    def lengthen(self):
        self.longest = 512


def pages(device):
    step = Attention(device)
    return graphsafe.Step(step, (torch.randn(4, 8, device=device),), events={"gc": gc.collect, "long": step.lengthen})


class Index:
    """Rows that move to new memory when they no longer suffice: at the second call."""

    def __init__(self, device):
        self.rows, self.used = torch.randn(8, 8, device=device), 4
        self.waiting = None

    def __call__(self, x):
        return x @ self.rows.T

    def add(self):
        self.used += 4
        if self.used > len(self.rows):
            self.rows = torch.cat([self.rows, torch.randn_like(self.rows)])[-8:]

    def announce(self):
        self.waiting = torch.randn_like(self.rows)

    def adopt(self, in_place):
        if self.waiting is not None:
            if in_place:
                self.rows.copy_(self.waiting)
            else:
                self.rows = self.waiting
            self.waiting = None


def _between_steps(device, event, at_quiet_moments=lambda index: None):
    index = Index(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(4, 8))
        if k % 16 == 15:
            at_quiet_moments(index)

    events = {event: getattr(index, event)}
    return graphsafe.Step(index, (torch.randn(4, 8, device=device),), refresh=refresh, events=events)


def second(device):
    return _between_steps(device, "add")


def adopted_later(device):
    return _between_steps(device, "announce", lambda index: index.adopt(in_place=False))


def adopted_later_in_place(device):
    return _between_steps(device, "announce", lambda index: index.adopt(in_place=True))


class Adapters(nn.Module):
    """A pool of adapters with room for one more. There is no refresh."""

    def __init__(self, device, grows):
        super().__init__()
        torch.manual_seed(0)
        self.rows, self.used, self.grows = torch.randn(2, 8, device=device), 1, grows
        self.active = torch.zeros(1, dtype=torch.long, device=device)

    def forward(self, x):
        return x * self.rows.index_select(0, self.active)

    def load(self):
        if self.used == len(self.rows):
            if self.grows:
                self.rows = torch.cat([self.rows, torch.zeros_like(self.rows)])
            else:
                self.used = 0
        self.rows[self.used].copy_(torch.randn(8))
        self.active.fill_(self.used)
        self.used += 1


def _loading(device, load, adapters):
    return graphsafe.Step(adapters, (torch.randn(4, 8, device=device),), events={"load": load})


def grown_pool(device):
    adapters = Adapters(device, grows=True)
    return _loading(device, adapters.load, adapters)


def full_pool(device):
    adapters = Adapters(device, grows=False)
    return _loading(device, adapters.load, adapters)


def loaded_once(device):
    """The event happens once in a program, and fails if it is asked for again."""
    adapters = Adapters(device, grows=False)

    def load():
        if adapters.used > 1:
            raise RuntimeError("it is loaded")
        adapters.load()

    return _loading(device, load, adapters)


def _fed(device, decays):
    """The loop takes batches from a generator, and a collection happens, or an event changes a number of the step."""
    scales = [1.0]
    batches = (row for row in torch.arange(4096.0).reshape(-1, 4).sin())

    def refresh(args, kwargs, k):
        args[0].copy_(next(batches))

    event = (lambda: scales.append(scales.pop() * 0.5)) if decays else gc.collect
    inputs = (torch.randn(4, device=device),)
    return graphsafe.Step(lambda x: x * scales[0], inputs, refresh=refresh, events={"between": event})


def fed(device):
    return _fed(device, decays=False)


def fed_with_decay(device):
    return _fed(device, decays=True)
