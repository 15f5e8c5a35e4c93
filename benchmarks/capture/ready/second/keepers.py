"""Objects that keep tensors from step to step."""
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import nn

_WIDTHS = {}


class Belief(NamedTuple):
    mean: torch.Tensor
    spread: torch.Tensor


class Bayes:
    def __init__(self, device):
        self.belief = Belief(torch.zeros(8, device=device), torch.ones(8, device=device))

    def __call__(self, x):
        gain = self.belief.spread / (self.belief.spread + 1.0)
        self.belief = self.belief._replace(mean=self.belief.mean + gain * (x - self.belief.mean), spread=0.9 * self.belief.spread + 0.1)
        return self.belief.mean


class BayesInPlace(Bayes):
    def __call__(self, x):
        mean, spread = self.belief
        gain = spread / (spread + 1.0)
        mean.add_(gain * (x - mean))
        spread.mul_(0.9).add_(0.1)
        return mean * 1.0


class Memory(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)
        self.register_buffer("h", torch.zeros(4, 8))

    @torch.no_grad()
    def forward(self, x):
        self.register_buffer("h", torch.tanh(self.fc(x) + self.h))
        return self.h


class Accumulator:
    """Sums gradients of several steps before anybody looks at them."""

    def __init__(self, device):
        self.w = nn.Parameter(torch.randn(8, device=device))
        self.w.grad = torch.zeros_like(self.w)

    def __call__(self, x):
        loss = (self.w * x).tanh().sum()
        (g,) = torch.autograd.grad(loss, self.w)
        self.w.grad = self.w.grad * 0.9 + g
        return self.w.grad.clone()


class AccumulatorInPlace(Accumulator):
    def __call__(self, x):
        self.w.grad.mul_(0.9)
        (self.w * x).tanh().sum().backward()
        return self.w.grad.clone()


class Delay:
    def __init__(self, device, n=3):
        self.line = [torch.zeros(8, device=device) for _ in range(n)]

    def __call__(self, x):
        out = self.line.pop(0)
        self.line.append(x * 1.0)
        return out + 0.1 * x


class DelayCopied(Delay):
    def __call__(self, x):
        out = self.line[0] + 0.1 * x
        for now, then in zip(self.line, self.line[1:]):
            now.copy_(then)
        self.line[-1].copy_(x)
        return out


class Observer(nn.Module):
    """Fake quantisation whose scale is measured on the first batch."""

    def __init__(self):
        super().__init__()
        self.register_buffer("scale", None)

    def forward(self, x):
        if self.scale is None:
            self.scale = x.abs().amax() / 127
        return torch.round(x / self.scale).clamp(-127, 127) * self.scale


class EachObserver(nn.Module):
    def forward(self, x):
        scale = x.abs().amax() / 127
        return torch.round(x / scale).clamp(-127, 127) * scale


class Vocabulary:
    def __init__(self):
        self.__dict__["kept"] = None

    def remap(self, ids):
        if self.kept is None:
            self.kept = ids.sort()[0]
        return torch.searchsorted(self.kept, ids)


def bounded(x, lengths):
    width = _WIDTHS.get("width")
    if width is None:
        width = _WIDTHS["width"] = lengths.amax()
    at = torch.arange(x.shape[1], device=x.device)
    return (x * (at < width)).sum(-1)


class Tracker:
    """Remembers the first frame as the template to match."""

    def __init__(self):
        self.template = None

    def __call__(self, frame):
        if self.template is None:
            self.template = F.normalize(frame.flatten(), dim=0)
        return frame.flatten() @ self.template


class LazyShape(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.LazyLinear(8)
        self.tables = {}

    def forward(self, x):
        key = x.shape[-1]
        if key not in self.tables:
            self.tables[key] = torch.linspace(0, 1, key, device=x.device)
        return self.fc(x * self.tables[key])


class Swapped(nn.Module):
    """Two weight sets by turns."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        self.a, self.b = self.b, self.a
        return self.a(x)


class Rotor:
    def __init__(self, device):
        self.q = torch.eye(4, device=device)
        self.turn = torch.linalg.qr(torch.randn(4, 4, device=device))[0]

    def __call__(self, x):
        self.q @= self.turn
        return x @ self.q


class RotorBuffered(Rotor):
    def __call__(self, x):
        self.q.copy_(self.q @ self.turn)
        return x @ self.q


def build_bayes(device):
    return Bayes(device), (torch.randn(8, device=device),)


def build_bayes_in_place(device):
    return BayesInPlace(device), (torch.randn(8, device=device),)


def build_memory_buffer(device):
    return Memory().to(device), (torch.randn(4, 8, device=device),)


def build_accumulator(device):
    return Accumulator(device), (torch.randn(8, device=device),)


def build_accumulator_in_place(device):
    return AccumulatorInPlace(device), (torch.randn(8, device=device),)


def build_delay(device):
    return Delay(device), (torch.randn(8, device=device),)


def build_delay_copied(device):
    return DelayCopied(device), (torch.randn(8, device=device),)


def build_observer(device):
    return Observer().to(device), (torch.randn(4, 8, device=device),)


def build_each_observer(device):
    return EachObserver().to(device), (torch.randn(4, 8, device=device),)


def build_vocabulary(device):
    return Vocabulary().remap, (torch.randint(0, 50, (12,), device=device),)


def build_bounded(device):
    return bounded, (torch.randn(4, 16, device=device), torch.tensor([3, 9, 5, 12], device=device))


def build_template(device):
    return Tracker(), (torch.randn(4, 4, device=device),)


def build_lazy_shape(device):
    return LazyShape().to(device), (torch.randn(4, 6, device=device),)


def build_swapped_layers(device):
    return Swapped().to(device), (torch.randn(4, 8, device=device),)


def build_rotor(device):
    return Rotor(device), (torch.randn(3, 4, device=device),)


def build_rotor_buffered(device):
    return RotorBuffered(device), (torch.randn(3, 4, device=device),)
