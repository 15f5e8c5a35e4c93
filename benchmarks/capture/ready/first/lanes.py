"""Steps that spread work over several streams."""
import torch
from torch import nn


class TwoTower(nn.Module):
    def __init__(self, device, dim=256):
        super().__init__()
        self.left = nn.Linear(dim, dim)
        self.right = nn.Linear(dim, dim)
        self.lane = torch.cuda.Stream(device)

    def forward(self, x):
        main = torch.cuda.current_stream()
        self.lane.wait_stream(main)
        with torch.cuda.stream(self.lane):
            r = torch.tanh(self.right(x))
        total = self.left(x) + r
        main.wait_stream(self.lane)
        return total


class OrderedTower(TwoTower):
    def forward(self, x):
        main = torch.cuda.current_stream()
        self.lane.wait_stream(main)
        with torch.cuda.stream(self.lane):
            r = torch.tanh(self.right(x))
        left = self.left(x)
        main.wait_stream(self.lane)
        return left + r


class Prefetch:
    def __init__(self, device, n=512):
        self.side = torch.cuda.Stream(device)
        self.done = torch.cuda.Event()
        self.table = torch.randn(n, n, device=device)
        self.stage = torch.zeros(n, n, device=device)

    def __call__(self, x):
        main = torch.cuda.current_stream()
        self.side.wait_stream(main)
        with torch.cuda.stream(self.side):
            self.done.record(self.side)
            torch.mm(self.table, self.table, out=self.stage)
        main.wait_event(self.done)
        y = x + self.stage
        main.wait_stream(self.side)
        return y


class PrefetchAfter(Prefetch):
    def __call__(self, x):
        main = torch.cuda.current_stream()
        self.side.wait_stream(main)
        with torch.cuda.stream(self.side):
            torch.mm(self.table, self.table * x.mean(), out=self.stage)
            self.done.record(self.side)
        main.wait_event(self.done)
        return x + self.stage


class SharedWorkspace:
    def __init__(self, device, n=256):
        self.a = torch.randn(n, n, device=device)
        self.b = torch.randn(n, n, device=device)
        self.work = torch.empty(n, n, device=device)
        self.other = torch.cuda.Stream(device)

    def __call__(self, x):
        here = torch.cuda.current_stream()
        self.other.wait_stream(here)
        torch.mm(x, self.a, out=self.work)
        first = self.work.relu()
        with torch.cuda.stream(self.other):
            torch.mm(x, self.b, out=self.work)
            second = self.work.sigmoid()
        here.wait_stream(self.other)
        return first + second


class TurnWorkspace(SharedWorkspace):
    def __call__(self, x):
        here = torch.cuda.current_stream()
        torch.mm(x, self.a, out=self.work)
        first = self.work.relu()
        free = here.record_event()
        with torch.cuda.stream(self.other):
            self.other.wait_event(free)
            torch.mm(x, self.b, out=self.work)
            second = self.work.sigmoid()
            ready = self.other.record_event()
        here.wait_event(ready)
        return first + second


class EarlyFork:
    def __init__(self, device):
        self.side = torch.cuda.Stream(device)
        self.hidden = torch.zeros(64, 256, device=device)
        self.w = torch.randn(256, 256, device=device) / 16

    def __call__(self, x):
        main = torch.cuda.current_stream()
        begin = main.record_event()
        torch.mm(x, self.w, out=self.hidden)
        self.side.wait_event(begin)
        with torch.cuda.stream(self.side):
            stats = self.hidden.pow(2).mean(-1, keepdim=True)
        main.wait_stream(self.side)
        return self.hidden * torch.rsqrt(stats + 1e-6)


class LateFork(EarlyFork):
    def __call__(self, x):
        main = torch.cuda.current_stream()
        torch.mm(x, self.w, out=self.hidden)
        begin = main.record_event()
        self.side.wait_event(begin)
        with torch.cuda.stream(self.side):
            stats = self.hidden.pow(2).mean(-1, keepdim=True)
        doubled = self.hidden * 2
        main.wait_stream(self.side)
        return doubled * torch.rsqrt(stats + 1e-6)


class Offloaded:
    def __init__(self, device):
        self.side = torch.cuda.Stream(device)
        self.log = torch.zeros(64, device=device)

    def __call__(self, x):
        y = torch.sin(x)
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            self.log.copy_(y.abs().amax(-1))
        return y * 2


class Fan:
    def __init__(self, device, lanes=3):
        self.lanes = [torch.cuda.Stream(device) for _ in range(lanes)]
        self.ws = [torch.randn(64, 64, device=device) for _ in range(lanes)]

    def _fork(self):
        here = torch.cuda.current_stream()
        for lane in self.lanes:
            lane.wait_stream(here)
        return here

    def __call__(self, x):
        here = self._fork()
        outs = []
        for lane, w in zip(self.lanes, self.ws):
            with torch.cuda.stream(lane):
                outs.append(x @ w)
        for lane in self.lanes:
            here.wait_stream(lane)
        return torch.stack(outs).sum(0)


class FanFirst(Fan):
    def __call__(self, x):
        here = self._fork()
        outs = []
        for lane, w in zip(self.lanes, self.ws):
            with torch.cuda.stream(lane):
                outs.append(x @ w)
        here.wait_stream(self.lanes[0])
        return outs[0]


class SumInto(Fan):
    """All lanes add their product to one accumulator."""

    def __init__(self, device, lanes=3):
        super().__init__(device, lanes)
        self.acc = torch.zeros(64, 64, device=device)

    def __call__(self, x):
        self.acc.zero_()
        here = self._fork()
        for lane, w in zip(self.lanes, self.ws):
            with torch.cuda.stream(lane):
                self.acc.add_(x @ w)
        for lane in self.lanes:
            here.wait_stream(lane)
        return self.acc.clone()


class ChainInto(SumInto):
    def __call__(self, x):
        self.acc.zero_()
        previous = torch.cuda.current_stream()
        here = previous
        for lane, w in zip(self.lanes, self.ws):
            lane.wait_stream(previous)
            with torch.cuda.stream(lane):
                self.acc.add_(x @ w)
            previous = lane
        here.wait_stream(previous)
        return self.acc.clone()


class DoubleBuffered:
    def __init__(self, device):
        self.slots = [torch.zeros(64, 512, device=device) for _ in range(2)]
        self.lane = torch.cuda.Stream(device)
        self.filled = torch.cuda.Event()

    def __call__(self, first, second):
        main = torch.cuda.current_stream()
        self.slots[0].copy_(first)
        self.filled.record(main)
        with torch.cuda.stream(self.lane):
            self.lane.wait_event(self.filled)
            a = self.slots[0].softmax(-1).cumsum(-1)
        self.slots[0].copy_(second)
        b = self.slots[0].softmax(-1)
        main.wait_stream(self.lane)
        return a + b


class TwoSlots(DoubleBuffered):
    def __call__(self, first, second):
        main = torch.cuda.current_stream()
        self.slots[0].copy_(first)
        self.filled.record(main)
        with torch.cuda.stream(self.lane):
            self.lane.wait_event(self.filled)
            a = self.slots[0].softmax(-1).cumsum(-1)
        self.slots[1].copy_(second)
        b = self.slots[1].softmax(-1)
        main.wait_stream(self.lane)
        return a + b


class TwoKernels:
    def __init__(self, device):
        self.lane = torch.cuda.Stream(device)
        self.w = torch.randn(256, 256, device=device) / 16

    def __call__(self, x):
        main = torch.cuda.current_stream()
        self.lane.wait_stream(main)
        with torch.cuda.stream(self.lane):
            k = x @ self.w
            ready = self.lane.record_event()
            v = k @ self.w
        main.wait_event(ready)
        out = k + v
        main.wait_stream(self.lane)
        return out


class Scratchpad:
    def __init__(self, device):
        self.lane = torch.cuda.Stream(device)
        self.w = torch.randn(512, 512, device=device) / 23

    def __call__(self, x):
        main = torch.cuda.current_stream()
        t = x * 2.0
        self.lane.wait_stream(main)
        with torch.cuda.stream(self.lane):
            y = (x @ self.w) @ self.w + t
        del t
        u = x * 3.0
        main.wait_stream(self.lane)
        return y + u


class NestedFork:
    def __init__(self, device):
        self.outer, self.inner = torch.cuda.Stream(device), torch.cuda.Stream(device)
        self.w = torch.randn(64, 64, device=device) / 8

    def __call__(self, x):
        main = torch.cuda.current_stream()
        self.outer.wait_stream(main)
        with torch.cuda.stream(self.outer):
            a = x @ self.w
            self.inner.wait_stream(self.outer)
            with torch.cuda.stream(self.inner):
                b = a.exp()
            c = a.sin()
            self.outer.wait_stream(self.inner)
            d = b + c
        e = x.cos()
        main.wait_stream(self.outer)
        return d * e


def build_two_tower(device):
    return TwoTower(device).to(device), (torch.randn(64, 256, device=device),)


def build_ordered_tower(device):
    return OrderedTower(device).to(device), (torch.randn(64, 256, device=device),)


def build_prefetch(device):
    return Prefetch(device), (torch.randn(512, 512, device=device),)


def build_prefetch_after(device):
    return PrefetchAfter(device), (torch.randn(512, 512, device=device),)


def build_shared_workspace(device):
    return SharedWorkspace(device), (torch.randn(256, 256, device=device),)


def build_turn_workspace(device):
    return TurnWorkspace(device), (torch.randn(256, 256, device=device),)


def build_early_fork(device):
    return EarlyFork(device), (torch.randn(64, 256, device=device),)


def build_late_fork(device):
    return LateFork(device), (torch.randn(64, 256, device=device),)


def build_offloaded(device):
    return Offloaded(device), (torch.randn(64, 256, device=device),)


def build_fan(device):
    return Fan(device), (torch.randn(64, 64, device=device),)


def build_fan_first(device):
    return FanFirst(device), (torch.randn(64, 64, device=device),)


def build_sum_into(device):
    return SumInto(device), (torch.randn(64, 64, device=device),)


def build_chain_into(device):
    return ChainInto(device), (torch.randn(64, 64, device=device),)


def build_double_buffered(device):
    return DoubleBuffered(device), (torch.randn(64, 512, device=device), torch.randn(64, 512, device=device))


def build_two_slots(device):
    return TwoSlots(device), (torch.randn(64, 512, device=device), torch.randn(64, 512, device=device))


def build_two_kernels(device):
    return TwoKernels(device), (torch.randn(128, 256, device=device),)


def build_scratchpad(device):
    return Scratchpad(device), (torch.randn(512, 512, device=device),)


def build_nested_fork(device):
    return NestedFork(device), (torch.randn(64, 64, device=device),)
