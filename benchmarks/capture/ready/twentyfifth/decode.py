"""Decode steps of inference engines: paged and static caches, rotary tables, sliding windows, fused weights."""
import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe

PAGE = 8
DIM, HEADS, VOCAB = 32, 4, 64


class Scheduler:
    """Host side: pages and lengths of each running sequence."""

    def __init__(self, batch, pages, limits):
        self.free = list(range(pages))
        self.tables = [[] for _ in range(batch)]
        self.lens = [0] * batch
        self.limits = limits
        self.changed = True

    def advance(self):
        self.changed = False
        for b in range(len(self.lens)):
            if self.lens[b] >= self.limits[b]:  # the sequence is finished, the next request takes its slot
                self.free.extend(self.tables[b])
                self.tables[b] = []
                self.lens[b] = 0
            if self.lens[b] % PAGE == 0:
                self.tables[b].append(self.free.pop(0))
                self.changed = True
            self.lens[b] += 1

    def slots(self):
        return [t[(n - 1) // PAGE] * PAGE + (n - 1) % PAGE for t, n in zip(self.tables, self.lens)]


class PagedModel(nn.Module):
    def __init__(self, pages):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, DIM)
        self.qkv = nn.Linear(DIM, 3 * DIM)
        self.out = nn.Linear(DIM, VOCAB)
        self.register_buffer("kc", torch.zeros(pages, PAGE, HEADS, DIM // HEADS))
        self.register_buffer("vc", torch.zeros(pages, PAGE, HEADS, DIM // HEADS))

    def forward(self, tokens, slots, tables, lens):
        b = tokens.shape[0]
        q, k, v = self.qkv(self.emb(tokens)).view(b, 3, HEADS, DIM // HEADS).unbind(1)
        self.kc.view(-1, HEADS, DIM // HEADS).index_copy_(0, slots, k)
        self.vc.view(-1, HEADS, DIM // HEADS).index_copy_(0, slots, v)
        keys = self.kc[tables].flatten(1, 2)
        values = self.vc[tables].flatten(1, 2)
        scores = torch.einsum("bhd,bshd->bhs", q, keys) / (DIM // HEADS) ** 0.5
        valid = torch.arange(keys.shape[1], device=tokens.device)[None] < lens[:, None]
        scores = scores.masked_fill(~valid[:, None], float("-inf"))
        mixed = torch.einsum("bhs,bshd->bhd", scores.softmax(-1), values)
        return self.out(mixed.flatten(1))


class PagedRunner:
    def __init__(self, device, batch=3, width=4):
        self.device = device
        self.model = PagedModel(batch * width + 2).to(device).requires_grad_(False)
        self.sched = Scheduler(batch, batch * width + 2, [20, 27, 31])
        self.width = width
        self.tokens = torch.zeros(batch, dtype=torch.long, device=device)
        self.slots = torch.zeros(batch, dtype=torch.long, device=device)
        self.lens = torch.ones(batch, dtype=torch.long, device=device)
        self.tables = torch.zeros(batch, width, dtype=torch.long, device=device)

    def table_rows(self):
        return [t + [0] * (self.width - len(t)) for t in self.sched.tables]

    def prepare(self):
        self.sched.advance()
        self.tokens.copy_(torch.randint(0, VOCAB, self.tokens.shape))
        self.slots.copy_(torch.tensor(self.sched.slots()))
        self.lens.copy_(torch.tensor(self.sched.lens))

    def step(self):
        return self.model(self.tokens, self.slots, self.tables, self.lens)


def build_paged(device):
    runner = PagedRunner(device)

    def refresh(args, kwargs, k):
        runner.prepare()
        runner.tables.copy_(torch.tensor(runner.table_rows()))

    refresh((), {}, 0)
    return graphsafe.Step(runner.step, (), refresh=refresh)


def build_paged_newtable(device):
    runner = PagedRunner(device)

    def refresh(args, kwargs, k):
        runner.prepare()
        if runner.sched.changed:  # the table is sent only if a page was added or freed
            runner.tables = torch.tensor(runner.table_rows(), device=device)

    refresh((), {}, 0)
    return graphsafe.Step(runner.step, (), refresh=refresh)


class StaticDecoder(nn.Module):
    def __init__(self, length=64):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, DIM)
        self.qkv = nn.Linear(DIM, 3 * DIM)
        self.out = nn.Linear(DIM, VOCAB)
        self.length = length
        self.register_buffer("kc", torch.zeros(1, length, DIM))
        self.register_buffer("vc", torch.zeros(1, length, DIM))
        self.register_buffer("pos", torch.zeros(1, dtype=torch.long))

    def attend(self, q, valid):
        scores = (q[:, None] * self.kc).sum(-1) / DIM**0.5
        scores = scores.masked_fill(~valid, float("-inf"))
        return self.out((scores.softmax(-1)[..., None] * self.vc).sum(1))


class DevicePosition(StaticDecoder):
    def forward(self, token):
        q, k, v = self.qkv(self.emb(token)).chunk(3, -1)
        self.kc.index_copy_(1, self.pos, k[:, None])
        self.vc.index_copy_(1, self.pos, v[:, None])
        valid = torch.arange(self.length, device=token.device)[None] <= self.pos
        logits = self.attend(q, valid)
        self.pos.add_(1)
        return logits


class HostPosition(StaticDecoder):
    def __init__(self, length=4096):
        super().__init__(length)
        self.seen = 0

    def forward(self, token):
        q, k, v = self.qkv(self.emb(token)).chunk(3, -1)
        self.kc[:, self.seen] = k
        self.vc[:, self.seen] = v
        valid = torch.arange(self.length, device=token.device)[None] <= self.seen
        self.seen += 1
        return self.attend(q, valid)

    def restart(self):
        self.seen = 0


def build_static_devpos(device):
    model = DevicePosition().to(device).requires_grad_(False)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randint(0, VOCAB, (1,)))
        if k % 40 == 0:  # a new prompt begins
            model.pos.zero_()

    return graphsafe.Step(
        model, (torch.zeros(1, dtype=torch.long, device=device),), refresh=refresh, reset=lambda: model.pos.zero_()
    )


def build_static_hostpos(device):
    model = HostPosition().to(device).requires_grad_(False)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randint(0, VOCAB, (1,)))

    return graphsafe.Step(
        model, (torch.zeros(1, dtype=torch.long, device=device),), refresh=refresh, reset=model.restart
    )


class Rotary:
    """Tables of cosines and sines; longer texts need longer tables."""

    def __init__(self, device, length=32, room=512):
        self.device = device
        self.freq = 10000.0 ** (-torch.arange(0, DIM, 2) / DIM)
        self.cos = torch.zeros(room, DIM // 2, device=device)
        self.sin = torch.zeros(room, DIM // 2, device=device)
        self.length = 0
        self.fill(length)

    def angles(self, length, base_scale=1.0):
        return torch.outer(torch.arange(length) / base_scale, self.freq)

    def fill(self, length):
        angles = self.angles(length)
        self.cos[:length].copy_(angles.cos())
        self.sin[:length].copy_(angles.sin())
        self.length = length

    def rebuild(self, length):
        angles = self.angles(length).to(self.device)
        self.cos, self.sin = angles.cos(), angles.sin()
        self.length = length

    def rotate(self, x, pos):
        a, b = x.chunk(2, -1)
        cos, sin = self.cos[pos], self.sin[pos]
        return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)


class RopeRunner:
    def __init__(self, device):
        self.rope = Rotary(device)
        self.q = nn.Linear(DIM, DIM).to(device).requires_grad_(False)
        self.k = nn.Linear(DIM, DIM).to(device).requires_grad_(False)
        self.pos = torch.zeros(2, dtype=torch.long, device=device)

    def step(self, x):
        return self.rope.rotate(self.q(x), self.pos) * self.rope.rotate(self.k(x), self.pos.clamp(min=1) - 1)


def build_rope_fill(device):
    runner = RopeRunner(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(2, DIM))
        last = k % 400
        while last >= runner.rope.length:
            runner.rope.fill(min(512, runner.rope.length * 2))
        runner.pos.copy_(torch.tensor([last, last // 2]))

    return graphsafe.Step(runner.step, (torch.randn(2, DIM, device=device),), refresh=refresh)


def build_rope_regrow(device):
    runner = RopeRunner(device)
    runner.rope.rebuild(64)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(2, DIM))
        last = k % 400
        while last >= runner.rope.length:
            runner.rope.rebuild(min(512, runner.rope.length * 2))
        runner.pos.copy_(torch.tensor([last, last // 2]))

    return graphsafe.Step(runner.step, (torch.randn(2, DIM, device=device),), refresh=refresh)


class Window(nn.Module):
    """Sliding-window attention over a ring of the last tokens."""

    def __init__(self, size=16):
        super().__init__()
        self.size = size
        self.qkv = nn.Linear(DIM, 3 * DIM)
        self.register_buffer("keys", torch.zeros(size, DIM))
        self.register_buffer("values", torch.zeros(size, DIM))
        self.register_buffer("slot", torch.zeros(1, dtype=torch.long))
        self.register_buffer("valid", torch.zeros(size, dtype=torch.bool))

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        self.keys.index_copy_(0, self.slot, k)
        self.values.index_copy_(0, self.slot, v)
        scores = (q @ self.keys.t()).masked_fill(~self.valid, float("-inf"))
        return scores.softmax(-1) @ self.values


def build_window_ring(device):
    model = Window().to(device).requires_grad_(False)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(1, DIM))
        model.slot.fill_(k % model.size)
        model.valid.copy_(torch.arange(model.size) <= (k if k < model.size else model.size))

    model.valid.fill_(True)
    return graphsafe.Step(model, (torch.randn(1, DIM, device=device),), refresh=refresh)


class LastWindow(nn.Module):
    """Once the text is longer than the window, the ring starts to wrap."""

    def __init__(self, size=100):
        super().__init__()
        self.size = size
        self.qkv = nn.Linear(DIM, 3 * DIM)
        self.wrapped = False
        self.register_buffer("keys", torch.zeros(size, DIM))
        self.register_buffer("values", torch.zeros(size, DIM))
        self.register_buffer("slot", torch.zeros(1, dtype=torch.long))

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        self.keys.index_copy_(0, self.slot, k)
        self.values.index_copy_(0, self.slot, v)
        scores = q @ self.keys.t()
        if not self.wrapped:
            ahead = torch.arange(self.size, device=x.device) > self.slot
            scores = scores.masked_fill(ahead, float("-inf"))
        return scores.softmax(-1) @ self.values


def build_window_wrapflag(device):
    model = LastWindow().to(device).requires_grad_(False)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(1, DIM))
        model.slot.fill_(k % model.size)
        model.wrapped = k >= model.size

    return graphsafe.Step(model, (torch.randn(1, DIM, device=device),), refresh=refresh)


class FusedQKV(nn.Module):
    """Three checkpoints' matrices, fused into one for the decode."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(DIM, DIM, bias=False) for _ in range(3))
        self.fused = None

    def forward(self, x):
        if self.fused is None:
            self.fused = torch.cat([self.q.weight, self.k.weight, self.v.weight])
        q, k, v = F.linear(x, self.fused).chunk(3, -1)
        return torch.sigmoid(q * k) * v


def build_fused_dropped(device):
    model = FusedQKV().to(device).requires_grad_(False)

    def reload():
        model.load_state_dict({n: torch.randn(DIM, DIM) * 0.1 for n in ("q.weight", "k.weight", "v.weight")})
        model.fused = None

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(2, DIM))

    return graphsafe.Step(model, (torch.randn(2, DIM, device=device),), refresh=refresh, events={"reload": reload})


def build_fused_inplace(device):
    model = FusedQKV().to(device).requires_grad_(False)
    model.fused = torch.cat([model.q.weight, model.k.weight, model.v.weight])

    def reload():
        model.load_state_dict({n: torch.randn(DIM, DIM) * 0.1 for n in ("q.weight", "k.weight", "v.weight")})
        torch.cat([model.q.weight, model.k.weight, model.v.weight], out=model.fused)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(2, DIM))

    return graphsafe.Step(model, (torch.randn(2, DIM, device=device),), refresh=refresh, events={"reload": reload})
