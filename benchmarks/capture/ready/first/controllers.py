"""Closed-loop controllers and running statistics."""
import bisect
import contextvars
import enum
import itertools
import random
import time
from collections import deque
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn


class DecayedMean:
    def __init__(self, dim, device):
        self.value = torch.zeros(dim, device=device)
        self.seen = 0

    def update(self, x):
        self.seen += 1
        decay = min(0.99, (1 + self.seen) / (10 + self.seen))
        self.value.mul_(decay).add_(x.mean(0), alpha=1 - decay)
        return x - self.value


class Anchored:
    PERIOD = 64

    def __init__(self, dim, device):
        self.anchor = torch.zeros(dim, device=device)
        self.tick = 0

    def __call__(self, x):
        self.tick += 1
        if self.tick % self.PERIOD == 0:
            self.anchor.copy_(x[0])
        return x - self.anchor


@dataclass
class Progress:
    updates: int = 0
    base: float = 0.1

    def rate(self):
        return self.base if self.updates < 120 else self.base * 0.1


class Descent:
    def __init__(self, device):
        self.w = torch.zeros(16, device=device)
        self.progress = Progress()

    def __call__(self, g):
        self.progress.updates += 1
        self.w.sub_(g * self.progress.rate())
        return self.w.clone()


def ramp(hold=90):
    for _ in range(hold):
        yield 1.0
    while True:
        yield 0.5


class RampedGain(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(16, 16)
        self.gains = ramp()

    def forward(self, x):
        return self.fc(x) * next(self.gains)


class Dither:
    def __init__(self, device):
        self.weight = torch.randn(16, device=device)
        self.signs = itertools.cycle([1.0] * 10 + [-1.0])

    def apply(self, x):
        return x + self.weight * next(self.signs)


_DEPTH = contextvars.ContextVar("depth", default=0)


def excite(x):
    depth = _DEPTH.get()
    _DEPTH.set(depth + 1)
    if depth % 40 == 39:
        return torch.relu(x) * 4.0
    return torch.relu(x)


_CALLS = 0


def saturate(x):
    global _CALLS
    _CALLS += 1
    limit = 1.0 if _CALLS < 200 else 0.25
    return x.clamp(-limit, limit)


class StochasticSkip(nn.Module):
    def __init__(self, p=0.03):
        super().__init__()
        self.fc = nn.Linear(16, 16)
        self.p = p

    def forward(self, x):
        if random.random() < self.p:
            return x
        return x + self.fc(x)


class Deadline:
    def __init__(self, device, seconds=3600.0):
        self.until = time.monotonic() + seconds
        self.fine = torch.randn(16, 16, device=device)

    def __call__(self, x):
        y = x @ self.fine
        if time.monotonic() < self.until:
            y = y + (x @ self.fine.t()) * 0.5
        return y


class Annealer:
    def __init__(self):
        self.t0 = time.time()

    def __call__(self, x):
        age = time.time() - self.t0
        return x * (1.0 + age / 100.0)


class Carousel:
    def __init__(self):
        self.ring = deque([1.0] * 29 + [3.0])

    def __call__(self, x):
        self.ring.rotate(1)
        return x * self.ring[5]


class TieredScale:
    def __init__(self):
        self.stats = {"seen": 0}
        self.table = {0: 1.0, 1: 2.0, 2: 4.0}

    def __call__(self, x):
        self.stats["seen"] += 1
        return x / self.table.get(self.stats["seen"] // 100, 8.0)


class Stage:
    def __init__(self, gain, hold):
        self.gain, self.hold, self.after = gain, hold, None


class Automaton:
    def __init__(self):
        a, b = Stage(1.0, 60), Stage(2.0, 5)
        a.after, b.after = b, a
        self.here, self.left = a, a.hold

    def _move(self):
        self.left -= 1
        if self.left == 0:
            self.here = self.here.after
            self.left = self.here.hold

    def __call__(self, x):
        self._move()
        return torch.tanh(x) * self.here.gain


class Recentre:
    def __init__(self, device):
        self.k = np.int64(0)
        self.centre = torch.zeros(8, device=device)

    def __call__(self, x):
        self.k = self.k + np.int64(1)
        if self.k % 50 == 0:
            self.centre.add_(x.mean(0))
        return x - self.centre


class Explorer:
    def __init__(self):
        self.rng = np.random.default_rng(5)

    def __call__(self, q):
        if self.rng.random() < 0.05:
            return q.argmin(-1)
        return q.argmax(-1)


class Backlog:
    def __init__(self):
        self.todo = [0.5] * 150

    def __call__(self, x):
        w = self.todo.pop() if self.todo else 1.0
        return x * w


class Phase(enum.Enum):
    WARM = "warm"
    HOT = "hot"


class Thermostat:
    def __init__(self, device):
        self.phase, self.n = Phase.WARM, 0
        self.bias = torch.randn(8, device=device)

    def tick(self):
        self.n += 1
        if self.n > 70:
            self.phase = Phase.HOT

    def __call__(self, x):
        self.tick()
        if self.phase is Phase.HOT:
            return x + self.bias
        return x - self.bias


class FractionalClock:
    def __init__(self, device, rate=0.01):
        self.acc, self.rate = 0.0, rate
        self.state = torch.ones(8, device=device)

    def __call__(self, x):
        self.acc += self.rate
        self.state.add_(x.sum(0), alpha=0.01)
        if self.acc >= 1.0:
            self.acc -= 1.0
            self.state.div_(self.state.norm())
        return self.state * 2.0


class Milestones:
    def __init__(self):
        self.at, self.epoch = [80, 160, 320], 0

    def __call__(self, grad):
        self.epoch += 1
        lr = 0.1 * 0.5 ** bisect.bisect(self.at, self.epoch)
        return -lr * grad


class Hierarchical:
    """Coarse levels are refreshed as the bits of the tick counter carry."""

    def __init__(self, device):
        self.n = 0
        self.levels = [torch.zeros(8, device=device) for _ in range(7)]

    def __call__(self, x):
        self.n += 1
        carry = (self.n & -self.n).bit_length() - 1
        if carry >= 5:
            self.levels[5].copy_(x[0])
        return x + self.levels[5]


def make_counter_step(device):
    gain = torch.randn(8, device=device)
    n = 0

    def step(x):
        nonlocal n
        n += 1
        return x * gain if n % 33 else x + gain

    return step


def relax(x):
    relax.calls += 1
    return x * (0.9 if relax.calls < 100 else 0.1)


relax.calls = 0


class Roulette:
    def __init__(self):
        self.rand = random.Random(11)

    def __call__(self, x):
        pick = self.rand.randrange(25)
        return x.flip(-1) if pick == 3 else x.sin()


class Parity:
    def __init__(self):
        self.side = 0

    def __call__(self, x):
        self.side ^= 1
        return x[:, self.side :: 2].cumsum(-1)


class RoundRobin(nn.Module):
    def __init__(self, n=6):
        super().__init__()
        self.experts = nn.ModuleList(nn.Linear(8, 8) for _ in range(n))
        self.turn = 0

    def forward(self, x):
        expert = self.experts[self.turn]
        self.turn = (self.turn + 1) % len(self.experts)
        return expert(x)


class Journal:
    def __init__(self):
        self.entries = []

    def __call__(self, x):
        self.entries.append(tuple(x.shape))
        scale = 1.0 if len(self.entries) <= 110 else 0.0
        return x * scale + 1.0


class Pacing:
    def __init__(self):
        self.plan = itertools.chain(itertools.repeat(0.3, 99), itertools.repeat(0.03))

    def __call__(self, x):
        return torch.lerp(x, x.mean(-1, keepdim=True), next(self.plan))


class HostFlip:
    def __call__(self, x):
        coin = torch.rand(()).item()
        return x * 2.0 if coin < 0.1 else x * 3.0


def _x(device, *shape):
    return torch.randn(*(shape or (4, 16)), device=device)


def build_decayed_mean(device):
    return DecayedMean(16, device).update, (_x(device),)


def build_anchored(device):
    return Anchored(16, device), (_x(device),)


def build_descent(device):
    return Descent(device), (_x(device, 16),)


def build_ramped_gain(device):
    return RampedGain().to(device), (_x(device),)


def build_dither(device):
    return Dither(device).apply, (_x(device),)


def build_excite(device):
    return excite, (_x(device),)


def build_saturate(device):
    return saturate, (_x(device),)


def build_stochastic_skip(device):
    return StochasticSkip().to(device), (_x(device),)


def build_deadline(device):
    return Deadline(device), (_x(device),)


def build_annealer(device):
    return Annealer(), (_x(device),)


def build_carousel(device):
    return Carousel(), (_x(device),)


def build_tiered_scale(device):
    return TieredScale(), (_x(device),)


def build_automaton(device):
    return Automaton(), (_x(device),)


def build_recentre(device):
    return Recentre(device), (_x(device, 4, 8),)


def build_explorer(device):
    return Explorer(), (_x(device),)


def build_backlog(device):
    return Backlog(), (_x(device),)


def build_thermostat(device):
    return Thermostat(device), (_x(device, 4, 8),)


def build_fractional_clock(device):
    return FractionalClock(device), (_x(device, 4, 8),)


def build_milestones(device):
    return Milestones(), (_x(device),)


def build_hierarchical(device):
    return Hierarchical(device), (_x(device, 4, 8),)


def build_closure_tick(device):
    return make_counter_step(device), (_x(device, 4, 8),)


def build_relax(device):
    return relax, (_x(device),)


def build_roulette(device):
    return Roulette(), (_x(device),)


def build_parity(device):
    return Parity(), (_x(device),)


def build_round_robin(device):
    return RoundRobin().to(device), (_x(device, 4, 8),)


def build_journal(device):
    return Journal(), (_x(device),)


def build_pacing(device):
    return Pacing(), (_x(device),)


def build_host_flip(device):
    return HostFlip(), (_x(device),)
