"""Steps for which a plan is asked."""

from __future__ import annotations

import time

import torch
import torch.nn.functional as F
from torch import nn

import graphsafe


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.router = nn.Linear(width, 4)

    def load(self, x):
        """Every layer calls it: one break, not one a layer."""
        choice = self.router(x).argmax(-1)
        return torch.bincount(choice, minlength=4).float() / choice.numel()

    def forward(self, x):
        hidden = self.down(F.gelu(self.up(self.norm(x))))
        share = self.load(x)
        return x + hidden * share.max() + torch.tanh(hidden)


class Stack(nn.Module):
    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Block(width) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 8)

    @torch.no_grad()
    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x)).softmax(-1)


def stack(device):
    return Stack(16, 3).to(device), (torch.randn(12, 16, device=device),)


class GrowingCache(nn.Module):
    """Attention over keys that are appended to, and a compressor that gives something in one of four steps."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.query, self.out = nn.LayerNorm(width), nn.Linear(width, width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.keys = torch.zeros(1, width)
        self.seen = 0

    def attend(self, query, hidden):
        self.keys = torch.cat([self.keys, hidden])
        compressed = self.compress()
        keys = self.keys if compressed is None else torch.cat([self.keys, compressed])
        return torch.softmax(query @ keys.T, dim=-1) @ keys

    def compress(self):
        self.seen += 1
        return self.keys.mean(0, keepdim=True) if self.seen % 4 == 0 else None

    @torch.no_grad()
    def forward(self, x):
        hidden = self.norm(x)
        query = torch.tanh(self.query(hidden))
        x = x + self.out(self.attend(query, hidden))
        return x + self.down(F.gelu(self.up(x)))


def growing_cache(device):
    module = GrowingCache(16).to(device)
    module.keys = module.keys.to(device)
    return module, (torch.randn(1, 16, device=device),)


class OtherWay(nn.Module):
    """A flag that is read in one place and used in another: the plan holds for one answer, or holds both places."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layer, self.wide = nn.Linear(width, width), nn.Linear(width, width)

    @torch.no_grad()
    def forward(self, x):
        hidden = torch.tanh(self.layer(x)) * 2
        positive = bool(hidden.sum() > 0)
        hidden = hidden + 1
        hidden = torch.relu(hidden) - 0.5
        if positive:
            hidden = torch.sigmoid(self.wide(hidden))
        return torch.tanh((hidden * 3).cumsum(0)) + 1


def other_way(device):
    module = OtherWay(8).to(device)
    with torch.no_grad():
        module.layer.weight.copy_(torch.eye(8))
        module.layer.bias.zero_()
    x = torch.randn(4, 8, device=device)

    def signed(args, kwargs, k):
        args[0].copy_(torch.rand(4, 8) * (1 if k % 2 else -1))

    return graphsafe.Step(module, (x,), {}, signed)


class AllRead(nn.Module):
    def forward(self, x):
        return x * x.sum().item()


def all_read(device):
    return AllRead(), (torch.randn(4, device=device),)


def ready(device):
    return nn.Sequential(nn.Linear(8, 8), nn.ReLU()).to(device), (torch.randn(4, 8, device=device),)


class Restless(nn.Module):
    """Reads a clock into an attribute of the output: no reference can repeat it."""

    def forward(self, x):
        import time

        y = torch.tanh(x) * 2 + 1
        scale = time.perf_counter()
        return y.relu() + 1, y * scale


def restless(device):
    return Restless(), (torch.randn(4, device=device),)


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        if grad.abs().max().item() > 1e6:
            raise ValueError("the gradient exploded")
        return grad * 2


def backward(device):
    """A read inside of backward, which runs on another thread."""
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x, y):
        optimizer.zero_grad(set_to_none=True)
        hidden = torch.tanh(model(x) * 2)
        loss = F.mse_loss(Doubled.apply(hidden), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (torch.randn(16, 8, device=device), torch.randn(16, 1, device=device))


def closure(device):
    """A break within a function that has variables of the function around it."""
    weight = torch.randn(8, 8, device=device)

    def step(x):
        hidden = torch.tanh(x @ weight) * 2
        print(end="" if hidden.sum().item() else " ")
        return torch.relu(hidden + weight[0]) * 3

    return step, (torch.randn(4, 8, device=device),)


class MadeAnew(nn.Module):
    """The read lies in a function that every step defines anew: the call of it is what can be cut."""

    @torch.no_grad()
    def forward(self, x):
        hidden = torch.tanh(x) * 2 + 1

        def scaled(values):
            largest = values.abs().max().item()
            return values / largest

        hidden = scaled(hidden)
        return torch.relu(hidden * 3).cumsum(0) + hidden


def made_anew(device):
    return MadeAnew(), (torch.randn(4, 8, device=device),)


class Seldom(nn.Module):
    """Does something else in one of fifty steps: no step that is looked at shows it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layer = nn.Linear(width, width)
        self.calls = 0

    @torch.no_grad()
    def forward(self, x):
        hidden = torch.tanh(self.layer(x)) * 2
        if self.calls % 50 == 49:
            hidden = hidden * 0
        hidden = torch.relu(hidden + 1) * 3
        hidden = hidden.cumsum(0) + hidden.mean()
        self.calls += 1
        self.largest = hidden.max().item()
        return hidden


def seldom(device):
    return Seldom(8).to(device), (torch.randn(4, 8, device=device),)


def fixed_inputs(device):
    """The one input leaves no choice, and a read stands in the way: nothing can be put to the test."""

    class Fixed(nn.Module):
        def forward(self, x):
            y = torch.tanh(x) * 2 + 1
            self.largest = y.max().item()
            return torch.relu(y) + 1

    return Fixed(), (torch.full((4,), float("inf"), device=device),)


class Pipeline(nn.Module):
    """The middle layer is on another GPU, on a stream of its own there."""

    def __init__(self, width: int, device, other) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(width, width).to(device), nn.Linear(width, width).to(device)
        self.middle = nn.Linear(width, width).to(other)
        self.device, self.other = device, other

    @torch.no_grad()
    def forward(self, x):
        hidden = torch.tanh(self.first(x)) * 2 + 1
        there = hidden.to(self.other)
        there = torch.relu(self.middle(there))
        hidden = there.to(self.device)
        return torch.tanh(self.last(hidden) * 3).cumsum(0)


def pipeline(device):
    other = torch.device("cuda", 0 if device.index else 1)
    return Pipeline(8, device, other), (torch.randn(4, 8, device=device),)


class Planned(nn.Module):
    """Behaves otherwise while a plan is looked for: as a step that is larger than what is left of memory, or slower."""

    def __init__(self, width: int, meets) -> None:
        super().__init__()
        self.layer = nn.Linear(width, width)
        self.meets = meets

    @torch.no_grad()
    def forward(self, x):
        hidden = torch.tanh(self.layer(x)) * 2
        if "_graphsafe_break" in globals():
            self.meets()
        self.largest = hidden.max().item()
        return torch.relu(hidden + 1) * 3


def _no_memory():
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB")


def out_of_memory(device):
    return Planned(8, _no_memory).to(device), (torch.randn(4, 8, device=device),)


def endless(device):
    return Planned(8, lambda: time.sleep(3600)).to(device), (torch.randn(4, 8, device=device),)


def training(device):
    """Forward, backward and the optimizer, and the loss is read in between."""
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = []

    def step(x, y):
        optimizer.zero_grad(set_to_none=False)
        loss = F.mse_loss(model(x), y)
        losses[:] = [loss.item()]
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (torch.randn(16, 8, device=device), torch.randn(16, 1, device=device))


def rebinding(device):
    """A step that counts in a variable of the function around it."""
    calls = 0

    def step(x):
        nonlocal calls
        hidden = torch.tanh(x) * 2 + 1
        calls += 1
        hidden = hidden * calls
        return torch.relu(hidden + 1) * 3

    return step, (torch.randn(4, 8, device=device),)


class RunningMean:
    """One break binds state to a new tensor, another reads the device."""

    def __init__(self, device):
        self.weight = torch.randn(16, 16, device=device) / 4
        self.mean = torch.zeros(16, device=device)

    def __call__(self, x):
        hidden = x @ self.weight @ self.weight
        self.mean = self.mean * 0.9 + hidden.mean(0) * 0.1
        peak = hidden.max().item()
        return (hidden * peak) @ self.weight - self.mean


def two_kinds(device):
    return RunningMean(device), (torch.randn(4, 16, device=device),)


class Neighbours(nn.Module):
    """Two breaks with no work between them, and a break that ends the step."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)

    def scale(self, hidden):
        return hidden.abs().max().item()

    def forward(self, x):
        hidden = self.second(self.first(x).relu() * 2 + 1).sigmoid()
        scale = self.scale(hidden)
        hidden = hidden / scale
        hidden = self.first(hidden).relu() + 1
        hidden = self.second(hidden).tanh() * 2
        return hidden * hidden.sum().item()


def neighbours(device):
    return Neighbours().to(device), (torch.randn(4, 8, device=device),)
