"""Overlapped work, second collection."""
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn


class NormAndUpdate:
    """Gradient norms are reduced on a side stream while parameters move."""

    def __init__(self, device, n=512):
        self.p = torch.randn(n, n, device=device)
        self.norm = torch.zeros((), device=device)
        self.side = torch.cuda.Stream(device)

    def __call__(self, g):
        main = torch.cuda.current_stream()
        self.side.wait_stream(main)
        with torch.cuda.stream(self.side):
            self.norm.copy_(self.p.square().sum().sqrt())
        self.p.add_(g, alpha=-0.01)
        main.wait_stream(self.side)
        return self.norm.clone()


class NormThenUpdate(NormAndUpdate):
    def __call__(self, g):
        main = torch.cuda.current_stream()
        self.side.wait_stream(main)
        with torch.cuda.stream(self.side):
            self.norm.copy_(self.p.square().sum().sqrt())
            done = self.side.record_event()
        scaled = g * -0.01
        main.wait_event(done)
        self.p.add_(scaled)
        return self.norm.clone()


class WrongRecorder:
    def __init__(self, device, n=512):
        self.w = torch.randn(n, n, device=device) / 23
        self.side, self.ev = torch.cuda.Stream(device), torch.cuda.Event()
        self.buf = torch.zeros(n, n, device=device)

    def __call__(self, x):
        main = torch.cuda.current_stream()
        self.side.wait_stream(main)
        with torch.cuda.stream(self.side):
            torch.mm(x, self.w, out=self.buf)
        self.ev.record()
        main.wait_event(self.ev)
        y = self.buf.relu()
        main.wait_stream(self.side)
        return y


class RightRecorder(WrongRecorder):
    def __call__(self, x):
        main = torch.cuda.current_stream()
        self.side.wait_stream(main)
        with torch.cuda.stream(self.side):
            torch.mm(x, self.w, out=self.buf)
            self.ev.record()
        self.ev.wait()
        return self.buf.relu()


class HostWait:
    def __init__(self, device):
        self.side = torch.cuda.Stream(device)

    def __call__(self, x):
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            y = x.exp()
        self.side.synchronize()
        torch.cuda.current_stream().wait_stream(self.side)
        return y * 2


class OnDefault:
    def __init__(self, device):
        self.w = torch.randn(16, 16, device=device)

    def __call__(self, x):
        main = torch.cuda.current_stream()
        default = torch.cuda.default_stream(x.device)
        default.wait_stream(main)
        with torch.cuda.stream(default):
            y = x @ self.w
        main.wait_stream(default)
        return y


class OldEvent:
    def __init__(self, device):
        self.loader = torch.cuda.Stream(device)
        self.loaded = torch.cuda.Event()
        with torch.cuda.stream(self.loader):
            self.w = torch.randn(16, 16, device=device)
            self.loaded.record()

    def __call__(self, x):
        torch.cuda.current_stream().wait_event(self.loaded)
        return x @ self.w


class Threaded:
    def __init__(self, device):
        self.pool = ThreadPoolExecutor(1)
        self.w = torch.randn(16, 16, device=device)

    def __call__(self, x):
        right = self.pool.submit(torch.matmul, x, self.w)
        left = x * 2
        return left + right.result()


class Polling:
    def __init__(self, device):
        self.side, self.ev = torch.cuda.Stream(device), torch.cuda.Event()
        self.busy = 0

    def __call__(self, x):
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            y = x.cumsum(-1)
            self.ev.record()
        if not self.ev.query():
            self.busy += 1
        torch.cuda.current_stream().wait_stream(self.side)
        return y


class Pipeline(nn.Module):
    """Two stages; the second reads what the first wrote into a ring of two buffers."""

    def __init__(self, device, n=256):
        super().__init__()
        self.w1 = torch.randn(n, n, device=device) / 16
        self.w2 = torch.randn(n, n, device=device) / 16
        self.ring = [torch.zeros(64, n, device=device) for _ in range(2)]
        self.out = [torch.zeros(64, n, device=device) for _ in range(4)]
        self.second = torch.cuda.Stream(device)
        self.full = [torch.cuda.Event() for _ in range(4)]

    def forward(self, xs):
        main = torch.cuda.current_stream()
        for i, x in enumerate(xs):
            slot = self.ring[i % 2]
            torch.mm(x, self.w1, out=slot)
            self.full[i].record(main)
            with torch.cuda.stream(self.second):
                self.second.wait_event(self.full[i])
                torch.mm(slot, self.w2, out=self.out[i])
        main.wait_stream(self.second)
        return torch.stack(self.out).sum(0)


class BoundedPipeline(Pipeline):
    def forward(self, xs):
        main = torch.cuda.current_stream()
        free = [None, None]
        for i, x in enumerate(xs):
            slot = self.ring[i % 2]
            if free[i % 2] is not None:
                main.wait_event(free[i % 2])
            torch.mm(x, self.w1, out=slot)
            self.full[i].record(main)
            with torch.cuda.stream(self.second):
                self.second.wait_event(self.full[i])
                torch.mm(slot, self.w2, out=self.out[i])
                free[i % 2] = self.second.record_event()
        main.wait_stream(self.second)
        return torch.stack(self.out).sum(0)


class RecordStream:
    def __init__(self, device):
        self.side = torch.cuda.Stream(device)
        self.w = torch.randn(128, 128, device=device) / 11

    def __call__(self, x):
        main = torch.cuda.current_stream()
        t = x * 2.0
        self.side.wait_stream(main)
        with torch.cuda.stream(self.side):
            y = (x @ self.w) @ self.w + t
            t.record_stream(self.side)
        del t
        u = x * 3.0
        main.wait_stream(self.side)
        return y + u


def build_norm_and_update(device):
    return NormAndUpdate(device), (torch.randn(512, 512, device=device),)


def build_norm_then_update(device):
    return NormThenUpdate(device), (torch.randn(512, 512, device=device),)


def build_wrong_recorder(device):
    return WrongRecorder(device), (torch.randn(512, 512, device=device),)


def build_right_recorder(device):
    return RightRecorder(device), (torch.randn(512, 512, device=device),)


def build_host_wait(device):
    return HostWait(device), (torch.randn(4, 16, device=device),)


def build_on_default(device):
    return OnDefault(device), (torch.randn(4, 16, device=device),)


def build_old_event(device):
    return OldEvent(device), (torch.randn(4, 16, device=device),)


def build_threaded(device):
    return Threaded(device), (torch.randn(4, 16, device=device),)


def build_polling(device):
    return Polling(device), (torch.randn(4, 16, device=device),)


def build_ring_pipeline(device):
    return Pipeline(device), ([torch.randn(64, 256, device=device) for _ in range(4)],)


def build_bounded_pipeline(device):
    return BoundedPipeline(device), ([torch.randn(64, 256, device=device) for _ in range(4)],)


def build_record_stream(device):
    return RecordStream(device), (torch.randn(128, 128, device=device),)
