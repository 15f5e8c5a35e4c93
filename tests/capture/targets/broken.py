"""Steps of two blocks of a transformer, each broken by one operation."""

import math

import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        x = x + self.out(torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]), -1) @ v)
        return x + self.down(F.gelu(self.up(x)))


class Blocks(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.head = Block(), Block(), nn.Linear(16, 8)


def scale_of(x):
    return 0.5 if bool((x > 3).any()) else 1.0


class HelperInExpression(Blocks):
    def forward(self, x):
        x = self.a(x)
        return self.head(self.b(x * scale_of(x)))


class OneExpression(Blocks):
    def forward(self, x):
        return self.head(self.b(self.a(x) * torch.tensor([0.5, 2.0], device=x.device).repeat(8)))


class ReadThenUsed(Blocks):
    """`ids` has one legal value."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(1, 16)

    def forward(self, x, ids):
        x = self.a(x + self.embedding(ids))
        largest = x.abs().max().item()
        return self.head(self.b(x / largest))


class EarlyReturn(Blocks):
    def forward(self, x):
        x = self.a(x)
        if torch.isinf(x).any():
            return torch.zeros(2, 6, 8, device=x.device)
        return self.head(self.b(x))


def is_too_large(x):
    return (x.abs().max() > 1e30).item()


class DecidedByHelper(Blocks):
    def forward(self, x):
        x = self.a(x)
        if is_too_large(x):
            return torch.zeros(2, 6, 8, device=x.device)
        return self.head(self.b(x))


class InEachLayer(Blocks):
    def forward(self, x):
        for layer in (self.a, self.b):
            x = layer(x)
            if x.isnan().any():
                x = torch.nan_to_num(x)
        return self.head(x)


class Private(Blocks):
    def __init__(self):
        super().__init__()
        self.__limit = nn.Parameter(torch.tensor(2.0))
        self.__count = 0

    def __bound(self, x):
        return x.clamp(max=self.__limit.item())

    def forward(self, x):
        x = self.__bound(self.a(x))
        self.__count += 1
        return self.head(self.b(x))


class OnDefLine(Blocks):
    def scaled(self, x): return x / x.abs().max().item()  # fmt: skip

    def forward(self, x):
        return self.head(self.b(self.scaled(self.a(x))))


class InPlace(Blocks):
    def forward(self, x):
        x = self.a(x)
        x.mul_(1.0 / x.amax().item())
        return self.head(self.b(x))


def made(kind, device, *more):
    torch.manual_seed(0)
    return kind().to(device).requires_grad_(False), (torch.randn(2, 6, 16, device=device), *more)


def helper_in_expression(device):
    return made(HelperInExpression, device)


def one_expression(device):
    return made(OneExpression, device)


def read_then_used(device):
    return made(ReadThenUsed, device, torch.zeros(2, 6, dtype=torch.long, device=device))


def early_return(device):
    return made(EarlyReturn, device)


def decided_by_helper(device):
    return made(DecidedByHelper, device)


def in_each_layer(device):
    return made(InEachLayer, device)


def private(device):
    return made(Private, device)


def on_def_line(device):
    return made(OnDefLine, device)


def inference(device):
    with torch.inference_mode():
        model, args = made(InPlace, device)

    def step(x):
        with torch.inference_mode():
            return model(x)

    return step, args


def nested(device):
    """The step is decorated, and a function beside it has the break."""
    model, args = made(Blocks, device)
    limit = 2.0

    def bounded(x):
        return x * (limit / max(x.max().item(), limit))

    @torch.no_grad()
    def step(x):
        return model.head(model.b(bounded(model.a(x))))

    return step, args


def used_up(device):
    """A generator that is made before the break has nothing left in a second step."""
    model, args = made(Blocks, device)

    def step(x):
        x = model.b(model.a(x))
        parameters = model.parameters()
        total = sum(parameter.sum().item() for parameter in parameters)
        return model.head(x) * total

    return step, args
