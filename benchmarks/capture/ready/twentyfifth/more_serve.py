"""More of serving: autoregressive loops, beams, cross attention, host lengths, sampling metadata, FP8 scales, state-space models."""
import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe

DIM, VOCAB, B = 16, 32, 3


class Lm(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, DIM)
        self.mix = nn.Linear(2 * DIM, DIM)
        self.head = nn.Linear(DIM, VOCAB)

    def forward(self, token, h):
        h = torch.tanh(self.mix(torch.cat([self.emb(token), h], -1)))
        return self.head(h), h


class Loop:
    """The engine feeds each step's tokens to the next one."""

    def __init__(self, device):
        self.lm = Lm().to(device).requires_grad_(False)
        self.token = torch.zeros(B, dtype=torch.long, device=device)
        self.h = torch.zeros(B, DIM, device=device)
        self.next_token = torch.zeros(B, dtype=torch.long, device=device)

    def step(self):
        logits, h = self.lm(self.token, self.h)
        self.h.copy_(h)
        self.next_token.copy_(logits.argmax(-1))
        return logits

    def chained(self):
        logits, h = self.lm(self.next_token, self.h)
        self.h.copy_(h)
        self.next_token = logits.argmax(-1)
        return logits

    def feed(self, k):
        self.token.copy_(self.next_token)
        if k % 45 == 0:  # one of the sequences has ended, another prompt takes its place
            row = (k // 45) % B
            self.h[row].zero_()
            self.token[row].fill_(1 + row)


def build_loop_fed(device):
    loop = Loop(device)
    return graphsafe.Step(loop.step, (), refresh=lambda args, kwargs, k: loop.feed(k))


def build_loop_chained(device):
    loop = Loop(device)

    def refresh(args, kwargs, k):
        if k % 45 == 0:
            loop.h.copy_(torch.randn(B, DIM))

    return graphsafe.Step(loop.chained, (), refresh=refresh)


class Beams:
    def __init__(self, device, width=3, room=32):
        self.lm = Lm().to(device).requires_grad_(False)
        self.h = torch.zeros(width, DIM, device=device)
        self.h.copy_(torch.randn(width, DIM))
        self.token = torch.zeros(width, dtype=torch.long, device=device)
        self.scores = torch.zeros(width, device=device)
        self.width = width

    def choose(self):
        logits, h = self.lm(self.token, self.h)
        total = self.scores[:, None] + logits.log_softmax(-1)
        best, flat = total.flatten().topk(self.width)
        self.scores.copy_(best - best.max())
        self.token.copy_(flat % VOCAB)
        return h, flat // VOCAB

    def copied(self):
        h, parent = self.choose()
        self.h.copy_(h[parent])
        return self.scores.clone(), self.h.clone()

    def rebound(self):
        h, parent = self.choose()
        self.h = h.index_select(0, parent)
        return self.scores.clone(), self.h.clone()


def build_beams_copied(device):
    beams = Beams(device)

    def refresh(args, kwargs, k):
        if k % 30 == 0:
            beams.h.copy_(torch.randn(3, DIM))

    return graphsafe.Step(beams.copied, (), refresh=refresh)


def build_beams_rebound(device):
    beams = Beams(device)
    return graphsafe.Step(beams.rebound, (), refresh=lambda args, kwargs, k: None)


class CrossDecoder(nn.Module):
    """A speech decoder that attends to the encoder's states of the current audio."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(8, DIM)
        self.q = nn.Linear(DIM, DIM)
        self.register_buffer("states", torch.zeros(20, DIM), persistent=False)

    def encode(self, audio):
        return torch.tanh(self.encoder(audio))

    def forward(self, x):
        scores = (self.q(x) @ self.states.t()) / DIM**0.5
        return scores.softmax(-1) @ self.states


def build_cross_copied(device):
    model = CrossDecoder().to(device).requires_grad_(False)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(B, DIM))
        if k % 50 == 0:
            model.states.copy_(model.encode(torch.randn(20, 8, device=device)))

    return graphsafe.Step(model, (torch.randn(B, DIM, device=device),), refresh=refresh)


def build_cross_assigned(device):
    model = CrossDecoder().to(device).requires_grad_(False)
    model.states = model.encode(torch.randn(20, 8, device=device))

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(B, DIM))
        if k and k % 90 == 0:  # the next segment of 30 seconds
            model.states = model.encode(torch.randn(20, 8, device=device))

    return graphsafe.Step(model, (torch.randn(B, DIM, device=device),), refresh=refresh)


class Attention:
    """Decode over a contiguous cache; the host knows the lengths."""

    def __init__(self, device, room=128, block=16):
        self.room, self.block = room, block
        self.qkv = nn.Linear(DIM, 3 * DIM).to(device).requires_grad_(False)
        self.k = torch.zeros(B, room, DIM, device=device)
        self.v = torch.zeros(B, room, DIM, device=device)
        self.rows = torch.arange(B, device=device)
        self.lens = torch.ones(B, dtype=torch.long, device=device)
        self.host_lens = [1, 3, 5]
        self.lens.copy_(torch.tensor(self.host_lens))

    def advance(self):
        self.host_lens = [n + 1 if n < self.room - 8 else 1 for n in self.host_lens]
        self.lens.copy_(torch.tensor(self.host_lens))

    def attend(self, x, n):
        q, k, v = self.qkv(x).chunk(3, -1)
        self.k.index_put_((self.rows, self.lens - 1), k)
        self.v.index_put_((self.rows, self.lens - 1), v)
        keep = torch.arange(n, device=x.device)[None] < self.lens[:, None]
        scores = torch.einsum("bd,bnd->bn", q, self.k[:, :n]).masked_fill(~keep, float("-inf"))
        return torch.einsum("bn,bnd->bd", scores.softmax(-1), self.v[:, :n])

    def full(self, x):
        return self.attend(x, self.room)

    def trimmed(self, x):
        longest = max(self.host_lens)
        n = -(-longest // self.block) * self.block
        return self.attend(x, n)


def build_attend_full(device):
    a = Attention(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(B, DIM))
        a.advance()

    return graphsafe.Step(a.full, (torch.randn(B, DIM, device=device),), refresh=refresh)


def build_attend_trimmed(device):
    a = Attention(device, block=32)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(B, DIM))
        a.advance()

    return graphsafe.Step(a.trimmed, (torch.randn(B, DIM, device=device),), refresh=refresh)


class Metadata:
    """Sampling metadata of the running batch, as an engine keeps it."""

    def __init__(self, device):
        self.head = nn.Linear(DIM, VOCAB).to(device).requires_grad_(False)
        self.temps = [0.0] * B
        self.top_ks = [4] * B
        self.temperature = torch.ones(B, 1, device=device)
        self.top_k = torch.full((B, 1), 4, device=device)
        self.mask = torch.ones(B, VOCAB, dtype=torch.bool, device=device)
        self.grammar = False
        self.processors = []

    def admit(self, k):
        row = (k // 20) % B
        self.temps[row] = 0.0 if k < 100 else 0.8
        self.top_ks[row] = 4 if k < 100 else 12
        self.temperature[row].fill_(self.temps[row] or 1.0)
        self.top_k[row].fill_(self.top_ks[row])

    def greedy_or_random(self, hidden):
        logits = self.head(hidden)
        if all(t == 0.0 for t in self.temps):
            return logits.argmax(-1), logits
        probs = (logits / self.temperature).softmax(-1)
        return torch.multinomial(probs, 1).squeeze(-1), probs

    def largest_k(self, hidden):
        logits = self.head(hidden) / self.temperature
        values, ids = logits.topk(max(self.top_ks))
        rank = torch.arange(values.shape[-1], device=hidden.device)
        values = values.masked_fill(rank >= self.top_k, float("-inf"))
        return values.softmax(-1), ids

    def fixed_k(self, hidden):
        logits = self.head(hidden) / self.temperature
        values, ids = logits.topk(16)
        rank = torch.arange(16, device=hidden.device)
        values = values.masked_fill(rank >= self.top_k, float("-inf"))
        return values.softmax(-1), ids

    def masked(self, hidden):
        return self.head(hidden).masked_fill(~self.mask, float("-inf")).log_softmax(-1)

    def grammar_flag(self, hidden):
        logits = self.head(hidden)
        if self.grammar:
            logits = logits.masked_fill(~self.mask, float("-inf"))
        return logits.log_softmax(-1)

    def processed(self, hidden):
        logits = self.head(hidden)
        for process in self.processors:
            logits = process(logits)
        return logits.log_softmax(-1)


def metadata_step(m, fn, device, change):
    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(B, DIM))
        change(k)

    return graphsafe.Step(fn, (torch.randn(B, DIM, device=device),), refresh=refresh)


def every_20(m):
    return lambda k: m.admit(k) if k % 20 == 0 else None


def build_all_greedy(device):
    m = Metadata(device)
    return metadata_step(m, m.greedy_or_random, device, every_20(m))


def build_largest_k(device):
    m = Metadata(device)
    return metadata_step(m, m.largest_k, device, every_20(m))


def build_fixed_k(device):
    m = Metadata(device)
    return metadata_step(m, m.fixed_k, device, every_20(m))


def set_mask(m):
    allowed = torch.rand(B, VOCAB) < 0.5
    allowed[:, 0] = True
    m.mask.copy_(allowed)


def build_grammar_mask(device):
    m = Metadata(device)

    def change(k):
        if k % 70 < 35:
            m.mask.fill_(True)
        else:
            set_mask(m)

    return metadata_step(m, m.masked, device, change)


def build_grammar_flag(device):
    m = Metadata(device)

    def change(k):
        m.grammar = k % 70 >= 35
        if m.grammar:
            set_mask(m)

    return metadata_step(m, m.grammar_flag, device, change)


def build_processors(device):
    m = Metadata(device)
    bias = torch.randn(VOCAB, device=device)

    def change(k):
        if k == 80:  # a request with a logit bias arrives
            m.processors.append(lambda logits: logits + bias)

    return metadata_step(m, m.processed, device, change)


class Fp8Linear(nn.Module):
    """Delayed scaling: the scale follows the largest value of the last steps."""

    def __init__(self, window=16):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(DIM, DIM) * 0.2)
        self.register_buffer("history", torch.ones(window))
        self.register_buffer("scale", torch.ones(1))
        self.calls = 0

    def quantised(self, x):
        q = (x / self.scale).clamp(-448, 448).to(torch.float8_e4m3fn)
        return q.to(torch.float32) * self.scale

    def note(self, x):
        self.history.copy_(torch.roll(self.history, 1))
        self.history[:1].copy_(x.abs().amax())


class Fp8Every(Fp8Linear):
    def forward(self, x):
        self.note(x)
        self.scale.copy_(self.history.amax() / 448)
        return F.linear(self.quantised(x), self.weight)


class Fp8Interval(Fp8Linear):
    def forward(self, x):
        self.note(x)
        self.calls += 1
        if self.calls % 128 == 0:
            self.scale.copy_(self.history.amax() / 448)
        return F.linear(self.quantised(x), self.weight)


class Fp8Rolled(Fp8Linear):
    def forward(self, x):
        self.history = torch.roll(self.history, 1)
        self.history[:1].copy_(x.abs().amax())
        self.scale.copy_(self.history.amax() / 448)
        return F.linear(self.quantised(x), self.weight)


def fp8_step(cls, device):
    model = cls().to(device).requires_grad_(False)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(B, DIM) * (1 + (k % 40) / 10))

    return graphsafe.Step(model, (torch.randn(B, DIM, device=device),), refresh=refresh)


def build_fp8_every(device):
    return fp8_step(Fp8Every, device)


def build_fp8_interval(device):
    return fp8_step(Fp8Interval, device)


def build_fp8_rolled(device):
    return fp8_step(Fp8Rolled, device)


class Ssm(nn.Module):
    """One step of a selective state-space layer, with a short convolution."""

    def __init__(self, state=4, kernel=4):
        super().__init__()
        self.inp = nn.Linear(DIM, 2 * DIM)
        self.bc = nn.Linear(DIM, 2 * state + 1)
        self.a = nn.Parameter(-torch.rand(DIM, state))
        self.w = nn.Parameter(torch.randn(DIM, kernel) * 0.3)
        self.register_buffer("conv", torch.zeros(8, DIM, kernel))
        self.register_buffer("h", torch.zeros(8, DIM, state))
        self.register_buffer("slots", torch.arange(B))

    def forward(self, x):
        x, gate = self.inp(x).chunk(2, -1)
        window = torch.cat([self.conv[self.slots][..., 1:], x[..., None]], -1)
        self.conv.index_copy_(0, self.slots, window)
        x = F.silu((window * self.w).sum(-1))
        b, c, dt = self.bc(x).split([4, 4, 1], -1)
        dt = F.softplus(dt)
        h = self.h[self.slots] * (dt[..., None] * self.a).exp() + (dt * x)[..., None] * b[:, None]
        self.h.index_copy_(0, self.slots, h)
        return (h * c[:, None]).sum(-1) * F.silu(gate)


def build_ssm_slots(device):
    model = Ssm().to(device).requires_grad_(False)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(B, DIM))
        if k % 35 == 0:  # a request ends; its slot is given to another
            slots = torch.randperm(8)[:B]
            model.slots.copy_(slots)
            model.conv[slots[0]].zero_()
            model.h[slots[0]].zero_()

    return graphsafe.Step(model, (torch.randn(B, DIM, device=device),), refresh=refresh)


class Staged:
    """Inputs go through a pinned buffer on the host; the copy to the device is part of the graph."""

    def __init__(self, device):
        self.layer = nn.Linear(DIM, DIM).to(device).requires_grad_(False)
        self.stage = torch.zeros(B, DIM, pin_memory=True)
        self.x = torch.zeros(B, DIM, device=device)

    def step(self):
        self.x.copy_(self.stage, non_blocking=True)
        return self.layer(self.x)

    def fill(self):
        if self.x.is_cuda:  # the last replay has read the buffer
            torch.cuda.current_stream().synchronize()
        self.stage.copy_(torch.randn(B, DIM))

    def replace(self):
        self.stage = torch.randn(B, DIM).pin_memory()


def build_staged(device):
    s = Staged(device)
    return graphsafe.Step(s.step, (), refresh=lambda args, kwargs, k: s.fill())


def build_staged_new(device):
    s = Staged(device)
    return graphsafe.Step(s.step, (), refresh=lambda args, kwargs, k: s.replace())
