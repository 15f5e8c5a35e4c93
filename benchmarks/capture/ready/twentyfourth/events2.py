"""Events whose effect comes later, or only in an old engine, and sound twins."""
import gc

import torch
import torch.nn.functional as F
from torch import nn

import graphsafe
from events_bad import Engine


def build_pending_reload(device):
    """Wrong: the event only asks for a reload, the loop performs it at the next multiple of 16 requests and rebinds the weight."""
    e = Engine(device)
    s = {"pending": False, "since": 0}

    def ask():
        s["pending"] = True

    def prepare(args, kwargs, k):
        e.prepare(args, kwargs, k)
        s["since"] += 1
        if s["pending"] and s["since"] >= 16:
            s["pending"], s["since"] = False, 0
            e.up.weight = nn.Parameter(e.up.weight * 1.1, requires_grad=False)

    return graphsafe.Step(e.forward, (e.x,), refresh=prepare, events={"reload": ask})


def build_compact_old(device):
    """Wrong: compaction moves the cache to a smaller tensor only if 400 or more rows are free, which an engine reaches after 800 requests."""
    class Cache(Engine):
        def __init__(self, device):
            super().__init__(device)
            self.rows = torch.randn(1024, self.d, device=device)
            self.index = torch.zeros(4, dtype=torch.int64, device=device)
            self.free = 0

        def prepare(self, args, kwargs, k):
            super().prepare(args, kwargs, k)
            self.index.copy_(torch.randint(512, (4,)))
            if k % 2 == 0 and self.free < 500:
                self.free += 1

        def compact(self):
            if self.free >= 400:
                self.rows = self.rows[: 1024 - self.free].clone()

        def forward(self, x):
            return super().forward(x + self.rows[self.index])

    e = Cache(device)
    return graphsafe.Step(e.forward, (e.x,), refresh=e.prepare, events={"compact": e.compact})


def build_lengthen_lazily(device):
    """Wrong: the event only raises the limit, and the first request beyond the old limit makes a longer table in new memory."""
    class Rope(Engine):
        def __init__(self, device):
            super().__init__(device)
            self.pos = torch.arange(4, device=device)
            self.limit, self.longest = 64, 8
            self.table = torch.randn(64, self.d, device=device)

        def lengthen(self):
            self.limit = 256

        def prepare(self, args, kwargs, k):
            args[0].copy_(torch.randn(4, self.d))
            if k % 10 == 0:
                self.longest = min(self.limit, self.longest * 2)
            if self.longest > len(self.table):
                self.table = torch.cat([self.table, torch.randn(self.longest - len(self.table), self.d).to(self.device)])
            args[1].copy_(torch.randint(self.longest, (4,)))

        def forward(self, x, pos):
            return super().forward(x * self.table[pos])

    e = Rope(device)
    return graphsafe.Step(e.forward, (e.x, e.pos), refresh=e.prepare, events={"lengthen": e.lengthen})


def build_nap_same_storage(device):
    """Right: the nap moves the weight to the host and afterwards puts the kept device storage back with its values copied in."""
    e = Engine(device)

    def nap():
        kept = e.up.weight.data
        host = kept.cpu().clone()
        e.up.weight.data = host
        kept.zero_()
        gc.collect()
        kept.copy_(host)
        e.up.weight.data = kept

    return graphsafe.Step(e.forward, (e.x,), refresh=e.prepare, events={"nap": nap})


def build_pending_reload_in_place(device):
    """Right: the event asks, and the loop later copies the new weight into the old one."""
    e = Engine(device)
    s = {"pending": False, "since": 0}

    def ask():
        s["pending"] = True

    def prepare(args, kwargs, k):
        e.prepare(args, kwargs, k)
        s["since"] += 1
        if s["pending"] and s["since"] >= 16:
            s["pending"], s["since"] = False, 0
            e.up.weight.mul_(1.1)

    return graphsafe.Step(e.forward, (e.x,), refresh=prepare, events={"reload": ask})


def build_compact_in_place(device):
    """Right: compaction renumbers rows within the same tensor and writes the new numbers into the static index map."""
    class Cache(Engine):
        def __init__(self, device):
            super().__init__(device)
            self.rows = torch.randn(256, self.d, device=device)
            self.where = torch.arange(256, device=device)
            self.index = torch.zeros(4, dtype=torch.int64, device=device)

        def prepare(self, args, kwargs, k):
            super().prepare(args, kwargs, k)
            self.index.copy_(torch.randint(256, (4,)))
            if k % 100 == 99:
                self.compact()

        def compact(self):
            order = torch.randperm(256)
            moved = self.rows[order.to(self.device)]
            self.rows.copy_(moved)
            old = self.where.cpu()
            back = torch.empty(256, dtype=torch.int64)
            back[order] = torch.arange(256)
            self.where.copy_(back[old])

        def forward(self, x):
            return super().forward(x + self.rows[self.where[self.index]])

    e = Cache(device)
    return graphsafe.Step(e.forward, (e.x,), refresh=e.prepare, events={"compact": e.compact})


def build_grow_then_flush(device):
    """Wrong: after a burst the flush event trims the request pool to half in new memory, while the graph reads the old pool."""
    class Pool(Engine):
        def __init__(self, device):
            super().__init__(device)
            self.pool = torch.randn(64, self.d, device=device)
            self.busy = 0

        def burst(self):
            self.busy = 40

        def flush(self):
            if self.busy > 32:
                self.pool = torch.zeros(64, self.d, device=self.device)
            self.busy = 0

        def forward(self, x):
            return super().forward(x) + self.pool.mean(0)

    e = Pool(device)
    return graphsafe.Step(e.forward, (e.x,), refresh=e.prepare, events={"flush": e.flush, "burst": e.burst})
