"""Steps that capture without an error and replay wrongly, or whose proof would be worth nothing."""

import collections
import contextlib
import contextvars
import functools
import itertools
import queue
import random
import threading

import torch
from torch import nn

import graphsafe


class HostCounter(nn.Module):
    """The position is a Python number: a graph writes to the same row for ever."""

    def __init__(self, device):
        super().__init__()
        self.register_buffer("cache", torch.zeros(64, 8, device=device))
        self.position = 0

    def forward(self, x):
        self.cache[self.position : self.position + 1].copy_(x)
        self.position += 1
        return self.cache.sum(0)


class DeviceCounter(nn.Module):
    """The same with the position on the device."""

    def __init__(self, device):
        super().__init__()
        self.register_buffer("cache", torch.zeros(64, 8, device=device))
        self.register_buffer("position", torch.zeros(1, dtype=torch.int64, device=device))

    def forward(self, x):
        self.cache.index_copy_(0, self.position, x)
        self.position.add_(1)
        return self.cache.sum(0)


class Rebound(nn.Module):
    """A running mean in a tensor that every step replaces."""

    def __init__(self, device):
        super().__init__()
        self.mean = torch.zeros(8, device=device)

    def forward(self, x):
        self.mean = 0.9 * self.mean + 0.1 * x.mean(0)
        return x - self.mean


class Plan(nn.Module):
    """The first step's inputs decide how every later step works."""

    def __init__(self, device):
        super().__init__()
        self.offsets = None

    def forward(self, x, lengths):
        if self.offsets is None:
            self.offsets = torch.cumsum(lengths, 0)
        return x * self.offsets.unsqueeze(1) + lengths.unsqueeze(1)


class FirstShape(nn.Module):
    """Lazy too, but from the shape alone: harmless."""

    def __init__(self, device):
        super().__init__()
        self.mask = None

    def forward(self, x):
        if self.mask is None:
            self.mask = torch.tril(torch.ones(x.shape[0], x.shape[0], device=x.device))
        return self.mask @ x


def host_counter(device):
    return HostCounter(device), (torch.randn(1, 8, device=device),)


def device_counter(device):
    return DeviceCounter(device), (torch.randn(1, 8, device=device),)


def rebound(device):
    return Rebound(device), (torch.randn(4, 8, device=device),)


def plan(device):
    return Plan(device), (torch.randn(4, 8, device=device), torch.tensor([7, 3, 9, 7], device=device))


def first_shape(device):
    return FirstShape(device), (torch.randn(4, 8, device=device),)


def capture_branch(device):
    def step(x):
        return x * 3 if torch.cuda.is_current_stream_capturing() else x * 2

    return step, (torch.randn(4, 8, device=device),)


def constant_inputs(device):
    return (lambda x: x * 2), (torch.ones(4, 8, device=device),)


def infinite_inputs(device):
    return (lambda x: x * 2), (torch.full((4, 8), float("inf"), device=device),)


def ignores_inputs(device):
    weight = torch.randn(4, device=device)
    return (lambda x: weight * 2), (torch.randn(4, 8, device=device),)


def nothing_on_the_device(device):
    return (lambda x: x.view(8, 4)), (torch.randn(4, 8, device=device),)


def unstable(device):
    def step(x):
        import time

        return x * (time.perf_counter_ns() % 1000)

    return step, (torch.randn(4, 8, device=device),)


def unseeded(device):
    import os

    weight = torch.frombuffer(bytearray(os.urandom(32)), dtype=torch.uint8).float().to(device)
    return (lambda x: x * weight), (torch.randn(4, 32, device=device),)


def dropout(device):
    return (lambda x: torch.nn.functional.dropout(x, 0.5)), (torch.randn(4, 64, device=device),)


def host_random(device):
    import random

    return (lambda x: x * random.random()), (torch.randn(4, 64, device=device),)


def private_generator(device):
    generator = torch.Generator(device=device)

    def step(x):
        return x + torch.empty_like(x).normal_(generator=generator)

    return step, (torch.randn(4, 64, device=device),)


def bad_integers(device):
    """New indices would be out of range: the largest seen is not the largest that is valid for every element."""
    table = torch.randn(16, 8, device=device)

    def step(x, index):
        if not torch.cuda.is_current_stream_capturing() and not bool((index[1:] > 0).all()):
            raise IndexError("index 0 is reserved")
        return table.index_select(0, index) + x

    return step, (torch.randn(3, 8, device=device), torch.tensor([2, 2, 5], device=device))


def guarded_meter(device):
    """Two reads on one line, and a window of values that drops the oldest by itself."""
    window = collections.deque(maxlen=50)

    def step(x):
        low, high = x.aminmax()
        if not torch.cuda.is_current_stream_capturing():
            window.extend((low.item(), high.item()))
        return x * 2

    return step, (torch.randn(8, device=device),)


_PLAN = None


class GlobalPlan(nn.Module):
    """The plan of the first step lives in a variable of the module, behind a helper."""

    def forward(self, x, lengths):
        return x * planned(lengths).unsqueeze(1) + lengths.unsqueeze(1)


def planned(lengths):
    global _PLAN
    if _PLAN is None:
        _PLAN = torch.cumsum(lengths, 0)
    return _PLAN


def global_plan(device):
    return GlobalPlan(), (torch.randn(4, 8, device=device), torch.tensor([7, 3, 9, 7], device=device))


def closure_plan(device):
    kept = {}

    def step(x, lengths):
        if "plan" not in kept:
            kept["plan"] = torch.cumsum(lengths, 0)
        return x * kept["plan"].unsqueeze(1) + lengths.unsqueeze(1)

    return step, (torch.randn(4, 8, device=device), torch.tensor([7, 3, 9, 7], device=device))


class Batch:
    """An argument that computes a property of its tensors once, and keeps it."""

    def __init__(self, device):
        self.lengths = torch.tensor([7, 3, 9, 7], device=device)

    @functools.cached_property
    def plan(self):
        return torch.cumsum(self.lengths, 0)


def plan_of_a_batch(device):
    @torch.no_grad()
    def step(batch):
        return batch.plan + batch.lengths

    return step, (Batch(device),)


class Momentum(nn.Module):
    """An optimiser's state is born in the first step, follows its inputs, and is written again in every step."""

    def __init__(self, device):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, device=device), requires_grad=False)
        self.momentum = None

    def forward(self, x):
        gradient = (x * self.weight).mean(0)
        if self.momentum is None:
            self.momentum = gradient.clone()
        else:
            self.momentum.mul_(0.9).add_(gradient)
        self.weight.sub_(0.1 * self.momentum)
        return self.weight.clone()


def momentum(device):
    return Momentum(device), (torch.randn(4, 8, device=device),)


class Escape(nn.Module):
    """Half of the work goes to a stream of its own that is neither forked from the step's nor joined to it."""

    def __init__(self, device):
        super().__init__()
        self.side = torch.cuda.Stream(device)
        self.register_buffer("part", torch.zeros(4, 8, device=device))

    def forward(self, x):
        with torch.cuda.stream(self.side):
            self.part.copy_(x * 0.5)
        return x + 1


def escape(device):
    return Escape(device), (torch.randn(4, 8, device=device),)


class Unjoined(Escape):
    """Forked, and never joined."""

    def forward(self, x):
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            self.part.copy_(x * 0.5)
        return x + 1


def unjoined(device):
    return Unjoined(device), (torch.randn(4, 8, device=device),)


def swallowed(device):
    def step(x):
        with contextlib.suppress(RuntimeError):
            x.sum().item()
        return x * 2

    return step, (torch.randn(4, 8, device=device),)


class ClassPlan(nn.Module):
    """The plan of the first step lives in the class."""

    plan = None

    def forward(self, x, lengths):
        if ClassPlan.plan is None:
            ClassPlan.plan = torch.cumsum(lengths, 0)
        return x * ClassPlan.plan.unsqueeze(1) + lengths.unsqueeze(1)


def class_plan(device):
    return ClassPlan(), (torch.randn(4, 8, device=device), torch.tensor([7, 3, 9, 7], device=device))


class Stubborn(dict):
    """A container that holds what it was given."""

    def clear(self):
        raise TypeError("cannot be cleared")


def stubborn(device):
    kept = Stubborn()

    def step(x):
        kept["last"] = x * 2
        return kept["last"] + 1

    return step, (torch.randn(4, 8, device=device),)


def compiled(device):
    module = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 64)).to(device).requires_grad_(False)
    return torch.compile(module), (torch.randn(4, 64, device=device),)


def integer_product(device):
    """The CPU multiplies integer matrices, CUDA does not."""
    return (lambda a: a @ a), (torch.ones(4, 4, dtype=torch.int64, device=device),)


def zero_head(device):
    """A freshly made head: zero everywhere, so that without other values no output would follow the input."""
    body, head = torch.nn.Linear(8, 8).to(device), torch.nn.Linear(8, 4).to(device)
    torch.nn.init.zeros_(head.weight)
    torch.nn.init.zeros_(head.bias)
    return torch.nn.Sequential(body, torch.nn.GELU(), head), (torch.randn(4, 8, device=device),)


def recurrent(device):
    """The CPU's LSTM rounds otherwise where memory is aligned otherwise."""
    lstm = torch.nn.LSTM(24, 40, num_layers=2).to(device).eval()
    return lstm, (torch.randn(7, 3, 24, device=device),)


def made_in_inference_mode(device):
    with torch.inference_mode():
        net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ELU(), torch.nn.Linear(8, 4)).to(device)

    @torch.inference_mode()
    def step(x):
        return net(x)

    return step, (torch.randn(4, 8, device=device),)


def writes_its_input(device):
    """The input is the result."""
    layer = nn.Linear(4, 4).to(device).requires_grad_(False)

    def step(x):
        x.copy_(torch.tanh(layer(x)))

    return step, (torch.randn(4, 4, device=device),)


def fills_its_input(device):
    """The step leaves the same values whatever it is given."""

    def step(x):
        x.fill_(2.0)

    return step, (torch.randn(4, 4, device=device),)


class Scales:
    largest = None


def plan_of_a_named_class(device):
    def step(x):
        if Scales.largest is None:
            Scales.largest = x.abs().max()
        return x / Scales.largest

    return step, (torch.randn(4, 8, device=device),)


def plan_on_a_weight(device):
    weight = torch.nn.Parameter(torch.randn(8, 8, device=device))

    def step(x):
        if not hasattr(weight, "largest"):
            weight.largest = x.abs().max()
        return x @ weight / weight.largest

    return step, (torch.randn(4, 8, device=device),)


def plan_on_a_function(device):
    def step(x):
        if not hasattr(step, "largest"):
            step.largest = x.abs().max()
        return x / step.largest

    return step, (torch.randn(4, 8, device=device),)


def plan_of_a_thread(device):
    kept = threading.local()

    def step(x):
        if not hasattr(kept, "largest"):
            kept.largest = x.abs().max()
        return x / kept.largest

    return step, (torch.randn(4, 8, device=device),)


def plan_in_a_queue(device):
    kept = queue.Queue()

    def step(x):
        if kept.empty():
            kept.put(x.abs().max())
        kept.put(largest := kept.get())
        return x / largest

    return step, (torch.randn(4, 8, device=device),)


def plan_in_an_iterator(device):
    largest = None

    def step(x):
        nonlocal largest
        largest = largest or itertools.repeat(x.abs().max())
        return x / next(largest)

    return step, (torch.randn(4, 8, device=device),)


def plan_in_a_context(device):
    kept = contextvars.ContextVar("kept", default=None)

    def step(x):
        if kept.get() is None:
            kept.set(x.abs().max())
        return x / kept.get()

    return step, (torch.randn(4, 8, device=device),)


def memo_by_address(device):
    """Packed weights that live as long as the step and are never written."""
    weights, packed, asked = [torch.randn(8, device=device), torch.randn(8, device=device)], {}, [0]

    def step(x):
        for weight in weights:
            asked[0] += id(weight) in packed
            x = x * packed.setdefault(id(weight), weight.flip(0))
        return x

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(4, 8))
        asked[0] = 0

    return graphsafe.Step(step, (torch.randn(4, 8, device=device),), refresh=refresh)


def sized_by_the_first_step(device):
    scores, keys = torch.empty(0, device=device), torch.randn(20, 8, device=device)

    def step(x):
        return torch.mm(x, keys.T, out=scores) * 2

    return step, (torch.randn(4, 8, device=device),)


def reseeded(device):
    def step(x):
        torch.manual_seed(0)
        return x + torch.randn_like(x)

    return step, (torch.randn(4, 8, device=device),)


def bound_anew_by_the_refresh(device):
    kept = {"x": torch.randn(4, 8, device=device)}

    def refresh(args, kwargs, k):
        kept["x"] = torch.randn(4, 8, device=device)

    return graphsafe.Step(lambda: kept["x"] * 2, (), refresh=refresh)


def joined_but_never_forked(device):
    side = torch.cuda.Stream(device)

    def step(x):
        with torch.cuda.stream(side):
            tripled = x * 3
        torch.cuda.current_stream().wait_stream(side)
        return tripled + 1

    return step, (torch.randn(4, 8, device=device),)


def waits_for_the_default_stream(device):
    def step(x):
        with torch.cuda.stream(torch.cuda.default_stream()):
            tripled = x * 3
        torch.cuda.current_stream().wait_stream(torch.cuda.default_stream())
        return tripled + 1

    return step, (torch.randn(4, 8, device=device),)


def read_off_another_stream(device):
    side = torch.cuda.Stream(device)

    def step(x):
        with torch.cuda.stream(side):
            tripled = x * 3
        return tripled + 1

    return step, (torch.randn(4, 8, device=device),)


def plan_in_a_hook(device):
    module, kept = nn.Linear(8, 8).to(device), {}

    def divide(_, args):
        if "largest" not in kept:
            kept["largest"] = args[0].abs().max()
        return (args[0] / kept["largest"],)

    module.register_forward_pre_hook(divide)
    return module, (torch.randn(4, 8, device=device),)


def buffer_filled_by_the_first_step(device):
    mean, is_filled = torch.zeros(8, device=device), []

    def step(x):
        if not is_filled:
            mean.copy_(x.mean(0))
            is_filled.append(True)
        return x - mean

    return step, (torch.randn(4, 8, device=device),)


def ring_of_buffers(device):
    ring = itertools.cycle([torch.empty(8, device=device) for _ in range(3)])

    def step(x):
        return torch.mv(x, torch.mv(x, x[0], out=next(ring)), out=next(ring)) + 1

    return step, (torch.randn(8, 8, device=device) / 8,)


class Concatenated(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.keys = torch.zeros(1, 8, device=device)

    def forward(self, x):
        self.keys = torch.cat([self.keys, x])
        return self.keys.sum(0)


def concatenated(device):
    return Concatenated(device), (torch.randn(1, 8, device=device),)


class Swapped(nn.Module):
    """Two buffers that each step swaps, read by a sum that is the same either way."""

    def __init__(self, device):
        super().__init__()
        self.front = torch.zeros(8, 8, device=device)
        self.back = torch.ones(8, 8, device=device)

    def forward(self, x):
        self.front, self.back = self.back, self.front
        return self.front + self.back + x


def swapped(device):
    return torch.no_grad()(Swapped(device)), (torch.randn(8, 8, device=device),)


def returns_a_count(device):
    count = [0]

    def step(x):
        count[0] += 1
        return x * 2, count[0]

    return step, (torch.randn(8, 8, device=device),)


def returns_a_draw_beside_a_count(device):
    count = [0]

    def step(x):
        count[0] += 1
        return x * 2, random.random()

    return step, (torch.randn(8, 8, device=device),)


def draws_a_token(device):
    """A redraw of the logits seldom changes the tokens."""
    torch.manual_seed(0)
    return (lambda x: torch.multinomial(x.softmax(-1), 1)), (torch.randn(3, 4, device=device),)


def trained_through_products(device):
    """The backward passes of `cumprod` and `prod` read the number of zeros on the host."""
    density = torch.rand(8, 8, device=device, requires_grad=True)

    def step(x):
        density.grad = None
        light = torch.cumprod(1 - density * x, -1)
        light.sum().backward()
        return density.grad.clone()

    return step, (torch.rand(8, 8, device=device),)


def trained_through_one_product(device):
    weight = torch.rand(8, 8, device=device, requires_grad=True)
    return (lambda x: torch.autograd.grad((weight * x).prod(), weight)[0]), (torch.rand(8, 8, device=device) + 0.5,)


def product_of_one_row(device):
    """There is one factor, so the backward pass counts nothing."""
    weight = torch.rand(1, 8, device=device, requires_grad=True)
    return (lambda x: torch.autograd.grad((weight * x).cumprod(0).sum(), weight)[0]), (torch.rand(1, 8, device=device),)


def driven_by_a_generator(device):
    """The generator makes a new anchor at every 24th step, and no run can put it back."""
    place, anchor = torch.rand(20, 3, device=device), torch.zeros(20, 3, device=device)

    def drive():
        while True:
            anchor.copy_(place)
            for _ in range(24):
                yield place.add_(anchor - place, alpha=0.1).mul_(0.95)

    driver = drive()
    return (lambda x: next(driver) * x), (torch.rand(20, 3, device=device),)


def keeps_its_buffer(device):
    """Only the first step allocates the buffer."""
    kept = {}

    def step(x):
        if "space" not in kept:
            kept["space"] = torch.empty_like(x)
        torch.mul(x, 2, out=kept["space"])
        return x.add_(kept["space"])

    return step, (torch.randn(4, 8, device=device),)
