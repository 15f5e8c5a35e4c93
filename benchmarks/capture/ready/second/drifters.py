"""Objects that change slowly while they are used."""
import heapq
import logging
import os
import random
import threading
import time
from collections import Counter, deque

import torch
from torch import nn

log = logging.getLogger(__name__)
_LOCAL = threading.local()


def local_gain(x):
    _LOCAL.count = getattr(_LOCAL, "count", 0) + 1
    return x * (2.0 if _LOCAL.count < 75 else 0.5)


class Cursor:
    """Reading `next` moves the cursor."""

    def __init__(self, values):
        self.values, self.at = values, -1

    @property
    def next(self):
        self.at = (self.at + 1) % len(self.values)
        return self.values[self.at]


class Modulator:
    def __init__(self):
        self.cursor = Cursor([0.25] * 44 + [4.0])

    def __call__(self, x):
        return x.sin() * self.cursor.next


class Agenda:
    def __init__(self, device):
        self.events = [(130, "damp"), (35, "kick"), (260, "damp")]
        heapq.heapify(self.events)
        self.now = 0
        self.v = torch.zeros(8, device=device)

    def __call__(self, x):
        self.now += 1
        self.v.add_(x, alpha=0.01)
        while self.events and self.events[0][0] <= self.now:
            _, what = heapq.heappop(self.events)
            if what == "kick":
                self.v.add_(1.0)
            else:
                self.v.mul_(0.5)
        return self.v * 2


class Morse:
    def __init__(self):
        self.code = "." * 27 + "-"

    def __call__(self, x):
        self.code = self.code[1:] + self.code[0]
        return x.cumsum(-1) if self.code[0] == "-" else x.cumsum(-1).flip(-1)


class Lcg:
    def __init__(self):
        self.s = 12345

    def draw(self):
        self.s = (1103515245 * self.s + 12345) & 0x7FFFFFFF
        return self.s >> 16


class Perturbed(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.source = nn.Linear(8, 8), Lcg()

    def forward(self, x):
        y = self.fc(x)
        return y.neg() if self.source.draw() % 41 == 0 else y


class HookedScale(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.uses = nn.Linear(8, 8), 0
        self.fc.register_forward_pre_hook(self._scale)

    def _scale(self, module, args):
        self.uses += 1
        return (args[0] * (1.0 if self.uses <= 60 else 3.0),)

    def forward(self, x):
        return self.fc(x)


class Freezer(nn.Module):
    def __init__(self):
        super().__init__()
        self.bn, self.steps = nn.BatchNorm1d(8), 0

    @torch.no_grad()
    def forward(self, x):
        self.steps += 1
        if self.steps == 80:
            self.eval()
        return self.bn(x)


def narrow(limit):
    scale = 1.0
    for _ in range(limit):
        heard = yield scale
        scale = 1.0 if heard is None else float(heard)
    raise RuntimeError("exhausted")


class Negotiator:
    def __init__(self):
        self.talk, self.fallback = narrow(128), False
        next(self.talk)

    def __call__(self, x):
        try:
            if not self.fallback:
                return x * self.talk.send(1.0)
        except RuntimeError:
            self.fallback = True
        return x.abs()


class EnvCounter:
    KEY = "STEP_COUNT_OF_THIS_RUN"

    def __call__(self, x):
        n = int(os.environ.get(self.KEY, "0")) + 1
        os.environ[self.KEY] = str(n)
        return x.relu() if n % 90 else x.abs()


class UrandomSkip:
    def __call__(self, x):
        if os.urandom(1)[0] < 16:
            return x * 0.0
        return x * 1.5


class ShuffledStages:
    def __init__(self, device):
        self.w = [torch.randn(8, 8, device=device) / 2 for _ in range(3)]

    def __call__(self, x):
        order = list(range(3))
        random.shuffle(order)
        for i in order:
            x = torch.tanh(x @ self.w[i])
        return x


class Blink:
    def __call__(self, x):
        on = (time.time_ns() // 1_000_000_000) % 40 < 20
        return x if on else -x


class Census:
    """Counts shapes; after enough of them it takes the cheap path."""

    def __init__(self):
        self.seen = Counter()

    def __call__(self, x):
        self.seen[tuple(x.shape)] += 1
        (_, n), *_ = self.seen.most_common(1)
        return x.softmax(-1) if n < 95 else x / x.abs().sum(-1, keepdim=True)


class Dropping(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = 1.0

    def forward(self, x):
        self.scale *= 0.98
        return x * self.scale


class FrameStack:
    def __init__(self, device, n=4):
        self.frames = deque([torch.zeros(8, device=device) for _ in range(n)], maxlen=n)

    def __call__(self, frame):
        self.frames.append(frame.clone())
        return torch.stack(tuple(self.frames)).mean(0)


class FrameRing:
    def __init__(self, device, n=4):
        self.frames = torch.zeros(n, 8, device=device)

    def __call__(self, frame):
        self.frames.copy_(torch.cat([self.frames[1:], frame[None]]))
        return self.frames.mean(0)


class Throttled:
    """Logs now and then; neither the clock nor the dice touch the numbers."""

    def __init__(self, device):
        self.w, self.last, self.logged = torch.randn(8, 8, device=device), time.monotonic(), 0

    def __call__(self, x):
        y = torch.relu(x @ self.w)
        if time.monotonic() - self.last > 5.0:
            self.last = time.monotonic()
            log.debug("alive")
        if random.random() < 0.1:
            self.logged += 1
            log.debug("sampled shape %s", tuple(y.shape))
        return y


class Versions:
    """Keeps a history of batch sizes and a checksum of its own calls."""

    def __init__(self):
        self.crc, self.sizes = 0, []

    def __call__(self, x):
        self.crc = (self.crc * 31 + x.shape[0]) & 0xFFFF
        self.sizes = (self.sizes + [x.shape[0]])[-10:]
        return x.softmax(-1) * len("abc")


def _x(device, *shape):
    return torch.randn(*(shape or (4, 8)), device=device)


def build_local_gain(device):
    return local_gain, (_x(device),)


def build_modulator(device):
    return Modulator(), (_x(device),)


def build_agenda(device):
    return Agenda(device), (_x(device, 8),)


def build_morse(device):
    return Morse(), (_x(device),)


def build_perturbed(device):
    return Perturbed().to(device), (_x(device),)


def build_hooked_scale(device):
    return HookedScale().to(device), (_x(device),)


def build_freezer(device):
    return Freezer().to(device), (_x(device, 16, 8),)


def build_negotiator(device):
    return Negotiator(), (_x(device),)


def build_env_counter(device):
    return EnvCounter(), (_x(device),)


def build_urandom_skip(device):
    return UrandomSkip(), (_x(device),)


def build_shuffled_stages(device):
    return ShuffledStages(device), (_x(device),)


def build_blink(device):
    return Blink(), (_x(device),)


def build_census(device):
    return Census(), (_x(device),)


def build_dropping(device):
    return Dropping().to(device), (_x(device),)


def build_frame_stack(device):
    return FrameStack(device), (_x(device, 8),)


def build_frame_ring(device):
    return FrameRing(device), (_x(device, 8),)


def build_throttled(device):
    return Throttled(device), (_x(device),)


def build_versions(device):
    return Versions(), (_x(device),)
