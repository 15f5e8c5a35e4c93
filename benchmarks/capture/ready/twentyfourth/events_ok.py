"""The sound twins: the same control planes, which write in place and keep what graphs read."""
import gc

import torch
import torch.nn.functional as F
from torch import nn

import graphsafe
from events_bad import Engine


def build_lora_slots(device):
    """Right: adapters are written in place into slots of a table at its full size, with least recently used slots overwritten."""
    class Lora(Engine):
        def __init__(self, device):
            super().__init__(device)
            self.a = torch.zeros(4, 8, self.d, device=device)
            self.b = torch.zeros(4, self.d, 8, device=device)
            self.slot = torch.zeros(4, dtype=torch.int64, device=device)
            self.order = [0, 1, 2, 3]

        def load(self):
            s = self.order.pop(0)
            self.order.append(s)
            self.a[s].copy_(torch.randn(8, self.d) * 0.1)
            self.b[s].copy_(torch.randn(self.d, 8) * 0.1)

        def forward(self, x):
            low = torch.bmm(self.a[self.slot], x.unsqueeze(-1))
            return super().forward(x) + torch.bmm(self.b[self.slot], low).squeeze(-1)

        def prepare(self, args, kwargs, k):
            super().prepare(args, kwargs, k)
            self.slot.copy_(torch.randint(4, (4,)))

    e = Lora(device)
    events = {f"load {i}": e.load for i in range(6)}
    return graphsafe.Step(e.forward, (e.x,), refresh=e.prepare, events=events)


def build_sleep_in_place(device):
    """Right: sleep saves the weights on the host and wipes them, wake copies them back into the same storage."""
    class Sleeper(Engine):
        def weights(self):
            return {"up.weight": self.up.weight, "up.bias": self.up.bias, "down.weight": self.down.weight}

        def sleep(self):
            self.backup = {n: w.detach().cpu().clone() for n, w in self.weights().items()}
            for w in self.weights().values():
                w.data.zero_()
            gc.collect()

        def wake(self):
            for n, w in self.weights().items():
                w.data.copy_(self.backup.pop(n))

    e = Sleeper(device)
    e.backup = {}

    def nap():
        e.sleep()
        e.wake()

    def prepare(args, kwargs, k):
        e.prepare(args, kwargs, k)
        if k % 100 == 99:
            nap()

    return graphsafe.Step(e.forward, (e.x,), refresh=prepare, events={"nap": nap, "gc": gc.collect})


def build_reload_in_place(device):
    """Right: load_state_dict without assign copies into the parameters, and the version number only goes to a log."""
    e = Engine(device)
    model = nn.ModuleDict({"up": e.up, "down": e.down})
    log = []

    def reload():
        fresh = {n: torch.randn(w.shape) * 0.1 for n, w in model.state_dict().items()}
        model.load_state_dict(fresh)
        log.append(f"version {len(log)} loaded")

    def prepare(args, kwargs, k):
        e.prepare(args, kwargs, k)
        if k % 40 == 39:
            reload()

    return graphsafe.Step(e.forward, (e.x,), refresh=prepare, events={"reload": reload})


def build_flush_zeroes(device):
    """Right: the flush zeroes the prefix cache and its lengths in place and forgets only host bookkeeping."""
    class Cache(Engine):
        def __init__(self, device):
            super().__init__(device)
            self.kv = torch.zeros(32, self.d, device=device)
            self.at = torch.zeros(1, dtype=torch.int64, device=device)
            self.names = {}

        def forward(self, x):
            h = super().forward(x)
            self.kv.index_copy_(0, self.at, h[:1])
            self.at.add_(1).remainder_(32)
            return h + self.kv.mean(0)

        def flush(self):
            self.kv.zero_()
            self.at.zero_()
            self.names.clear()

        def prepare(self, args, kwargs, k):
            super().prepare(args, kwargs, k)
            self.names[f"request {k}"] = k % 32
            if len(self.names) > 200:
                self.flush()

    e = Cache(device)
    return graphsafe.Step(e.forward, (e.x,), refresh=e.prepare, reset=e.flush, events={"flush": e.flush})


def build_lengthen_within_table(device):
    """Right: the rotary table has its greatest length from the start, lengthening rewrites it in place with the new base."""
    class Rope(Engine):
        def __init__(self, device):
            super().__init__(device)
            self.pos = torch.arange(4, device=device)
            self.longest = 64
            self.cos = torch.empty(256, self.d // 2, device=device)
            self.sin = torch.empty(256, self.d // 2, device=device)
            self.fill(10000.0)

        def fill(self, base):
            inv = base ** (-torch.arange(0, self.d, 2, device=self.device) / self.d)
            angle = torch.outer(torch.arange(256, device=self.device).float(), inv)
            torch.cos(angle, out=self.cos)
            torch.sin(angle, out=self.sin)

        def lengthen(self):
            self.longest = min(256, self.longest * 2)
            self.fill(10000.0 * self.longest / 64)

        def forward(self, x, pos):
            a, b = x.chunk(2, -1)
            c, s = self.cos[pos], self.sin[pos]
            return super().forward(torch.cat([a * c - b * s, a * s + b * c], -1))

    e = Rope(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(4, 32))
        args[1].copy_(torch.randint(e.longest, (4,)))

    return graphsafe.Step(e.forward, (e.x, e.pos), refresh=refresh, events={"lengthen": e.lengthen})


def build_block_table_fixed(device):
    """Right: the block table has room for the longest sequence, and lengths reach the step only as a device tensor."""
    class Runner(Engine):
        def __init__(self, device):
            super().__init__(device)
            self.kv = torch.randn(64, 16, self.d, device=device)
            self.lens = [16 * 8, 5, 40, 7]
            self.table = torch.zeros(4, 20, dtype=torch.int32, device=device)
            self.seqlen = torch.zeros(4, dtype=torch.int32, device=device)
            self.finished = 0

        def prepare(self, args, kwargs, k):
            super().prepare(args, kwargs, k)
            for i, n in enumerate(self.lens):
                if n + 1 > 16 * 20:
                    self.lens[i] = 1  # preempted; starts over
                    self.finished += 1
                else:
                    self.lens[i] = n + 1
            self.table.copy_(torch.randint(64, (4, 20), dtype=torch.int32))
            self.seqlen.copy_(torch.tensor(self.lens, dtype=torch.int32))

        def forward(self, x):
            pages = self.kv[self.table.long()].flatten(1, 2)
            seen = torch.arange(pages.shape[1], device=x.device) < self.seqlen.unsqueeze(1)
            att = torch.einsum("btd,bd->bt", pages, x).masked_fill(~seen, -1e9).softmax(-1)
            return super().forward(torch.einsum("bt,btd->bd", att, pages))

    e = Runner(device)
    return graphsafe.Step(e.forward, (e.x,), refresh=e.prepare)
