"""Serving engines whose control plane does something between two decode steps."""
import gc
import weakref

import torch
import torch.nn.functional as F
from torch import nn

import graphsafe


class Engine:
    def __init__(self, device, d=32):
        torch.manual_seed(1)
        self.device, self.d = device, d
        self.up = nn.Linear(d, 64).to(device).requires_grad_(False)
        self.down = nn.Linear(64, d).to(device).requires_grad_(False)
        self.x = torch.randn(4, d, device=device)

    def forward(self, x):
        return x + self.down(F.silu(self.up(x)))

    def prepare(self, args, kwargs, k):
        args[0].copy_(torch.randn(args[0].shape))


def build_third_lora(device):
    """Wrong: two adapters fit the stacked table, the third load concatenates a new table and the graph reads the freed one."""
    class Lora(Engine):
        def __init__(self, device):
            super().__init__(device)
            self.a = torch.zeros(2, 8, self.d, device=device)
            self.b = torch.zeros(2, self.d, 8, device=device)
            self.slot = torch.zeros(4, dtype=torch.int64, device=device)
            self.loaded = 0

        def load(self):
            if self.loaded == len(self.a):
                self.a = torch.cat([self.a, torch.zeros_like(self.a)])
                self.b = torch.cat([self.b, torch.zeros_like(self.b)])
            self.a[self.loaded].copy_(torch.randn(8, self.d) * 0.1)
            self.b[self.loaded].copy_(torch.randn(self.d, 8) * 0.1)
            self.loaded += 1

        def forward(self, x):
            h = super().forward(x)
            low = torch.bmm(self.a[self.slot] , x.unsqueeze(-1))
            return h + torch.bmm(self.b[self.slot], low).squeeze(-1)

        def prepare(self, args, kwargs, k):
            super().prepare(args, kwargs, k)
            self.slot.copy_(torch.randint(max(1, self.loaded), (4,)))

    e = Lora(device)
    events = {"load first": e.load, "load second": e.load, "load third": e.load}
    return graphsafe.Step(e.forward, (e.x,), refresh=e.prepare, events=events)


def build_second_wake(device):
    """Wrong: the first wake restores into the old storage, but every later sleep frees it, so the graph reads lost memory after the second."""
    class Sleeper(Engine):
        level = 0
        backup = None

        def sleep(self):
            self.level += 1
            if self.level == 1:  # first sleep keeps storage
                self.backup = {n: w.cpu().clone() for n, w in self.weights()}
            else:
                self.backup = {n: w.cpu().clone() for n, w in self.weights()}
                for _, w in self.weights():
                    w.data = torch.empty(0, device=w.device)

        def weights(self):
            yield "up", self.up.weight
            yield "down", self.down.weight

        def wake(self):
            for n, w in self.weights():
                if w.numel():
                    w.data.copy_(self.backup[n])
                else:
                    w.data = self.backup[n].to(self.device)

    e = Sleeper(device)

    def prepare(args, kwargs, k):
        e.prepare(args, kwargs, k)
        if k % 1500 == 1499:  # the server idles now and then
            e.sleep()
            e.wake()

    return graphsafe.Step(e.forward, (e.x,), refresh=prepare, events={"idle": lambda: (e.sleep(), e.wake())})


def build_gc_weak_table(device):
    """Wrong: the rotary table lives only in a reference cycle behind a weak dictionary, so a collection frees memory that the graph reads."""
    class Table:
        def __init__(self, n, d):
            self.cos = torch.arange(n, device=device).unsqueeze(1).mul(torch.rand(d, generator=torch.Generator().manual_seed(3)).to(device)).cos()
            self.me = self  # a cycle

    tables = weakref.WeakValueDictionary()
    e = Engine(device)
    pos = torch.arange(4, device=device)

    def table():
        found = tables.get("cos")
        if found is None:
            found = tables["cos"] = Table(64, 32)
        return found

    def step(x, pos):
        return e.forward(x * table().cos[pos])

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(4, 32))
        args[1].copy_(torch.randint(64, (4,)))

    return graphsafe.Step(step, (e.x, pos), refresh=refresh, events={"gc": gc.collect})


def build_cache_flush(device):
    """Wrong: the flush drops a lazily made mask from the dictionary, the memory goes back to the allocator, and the graph still reads it."""
    masks = {}
    e = Engine(device)
    scores = torch.randn(4, 16, 16, device=device)

    def mask(n):
        if n not in masks:
            masks[n] = torch.full((n, n), float("-inf"), device=device).triu(1)
        return masks[n]

    def step(x, scores):
        weights = (scores + mask(16)).softmax(-1)
        return e.forward(x) * weights.amax((1, 2)).unsqueeze(1)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(4, 32))
        args[1].copy_(torch.randn(4, 16, 16))

    def flush():
        masks.clear()
        gc.collect()

    return graphsafe.Step(step, (e.x, scores), refresh=refresh, events={"flush": flush})


def build_lengthen_rope(device):
    """Wrong: lengthening makes a new rotary table with another base and rebinds it, so the graph rotates by the old table."""
    class Rope(Engine):
        def __init__(self, device):
            super().__init__(device)
            self.pos = torch.arange(4, device=device)
            self.longest = 64
            self.make(10000.0)

        def make(self, base):
            inv = base ** (-torch.arange(0, self.d, 2, device=self.device) / self.d)
            angle = torch.outer(torch.arange(self.longest, device=self.device).float(), inv)
            self.cos, self.sin = angle.cos(), angle.sin()

        def lengthen(self):
            self.longest *= 2
            self.make(20000.0)

        def forward(self, x, pos):
            a, b = x.chunk(2, -1)
            c, s = self.cos[pos], self.sin[pos]
            return super().forward(torch.cat([a * c - b * s, a * s + b * c], -1))

    e = Rope(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(4, 32))
        args[1].copy_(torch.randint(64, (4,)))

    return graphsafe.Step(e.forward, (e.x, e.pos), refresh=refresh, events={"lengthen": e.lengthen})


def build_reload_assign_late(device):
    """Wrong: every 3000 steps the loop loads a checkpoint with assign=True, which rebinds the parameters."""
    e = Engine(device)
    model = nn.ModuleDict({"up": e.up, "down": e.down})
    box = {"since": 0, "version": 0}

    def refresh(args, kwargs, k):
        e.prepare(args, kwargs, k)
        box["since"] += 1
        if box["since"] > 3000:
            box["since"] = 0
            box["version"] += 1
            fresh = {n: w + 0.1 for n, w in model.state_dict().items()}
            model.load_state_dict(fresh, assign=True)

    return graphsafe.Step(e.forward, (e.x,), refresh=refresh)


def build_block_table_grow(device):
    """Wrong: the block table gains a column in new memory when the longest sequence passes 256 tokens of 16-token blocks."""
    class Runner(Engine):
        def __init__(self, device):
            super().__init__(device)
            self.kv = torch.randn(64, 16, self.d, device=device)
            self.lens = [16 * 8, 5, 40, 7]
            self.table = torch.zeros(4, 16, dtype=torch.int32, device=device)
            self.seqlen = torch.zeros(4, dtype=torch.int32, device=device)

        def prepare(self, args, kwargs, k):
            super().prepare(args, kwargs, k)
            self.lens = [n + 1 for n in self.lens]
            if k and k % 900 == 0:
                self.lens = [9, 9, 9, 9]  # all sequences end; new ones come
            need = (max(self.lens) + 15) // 16
            if need > self.table.shape[1]:
                self.table = F.pad(self.table, (0, need - self.table.shape[1] + 15))
            self.table.copy_(torch.randint(64, self.table.shape, dtype=torch.int32))
            self.seqlen.copy_(torch.tensor(self.lens, dtype=torch.int32))

        def forward(self, x):
            pages = self.kv[self.table.long()].flatten(1, 2)
            seen = torch.arange(pages.shape[1], device=x.device) < self.seqlen.unsqueeze(1)
            att = torch.einsum("btd,bd->bt", pages, x).masked_fill(~seen, -1e9).softmax(-1)
            return super().forward(torch.einsum("bt,btd->bd", att, pages))

    e = Runner(device)
    return graphsafe.Step(e.forward, (e.x,), refresh=e.prepare)
