"""Samplers, speculative decoding, mixture of experts, LoRA, quantised layers, and what a server does in between."""
import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe

DIM, VOCAB, BATCH = 24, 48, 4


class Sampler:
    def __init__(self, device):
        self.device = device
        self.head = nn.Linear(DIM, VOCAB).to(device).requires_grad_(False)
        self.counts = torch.zeros(BATCH, VOCAB, device=device)
        self.penalty = torch.ones(BATCH, 1, device=device)
        self.temperature = torch.ones(BATCH, 1, device=device)
        self.generated = 0
        self.min_tokens = 80
        self.made = torch.zeros(BATCH, 1, dtype=torch.long, device=device)
        self.bias = 0.0

    def penalised(self, hidden):
        logits = self.head(hidden)
        seen = self.counts > 0
        return torch.where(seen, torch.where(logits > 0, logits / self.penalty, logits * self.penalty), logits)

    def repeat_step(self, hidden):
        logits = self.penalised(hidden) / self.temperature
        token = logits.argmax(-1, keepdim=True)
        self.counts.scatter_add_(1, token, torch.ones_like(token, dtype=self.counts.dtype))
        return token, logits

    def min_tokens_host(self, hidden):
        logits = self.penalised(hidden)
        if self.generated < self.min_tokens:
            eos = torch.arange(VOCAB, device=hidden.device) == 0
            logits = logits.masked_fill(eos, float("-inf"))
        return logits.softmax(-1)

    def min_tokens_device(self, hidden):
        logits = self.penalised(hidden)
        eos = torch.arange(VOCAB, device=hidden.device) == 0
        logits = logits.masked_fill(eos[None] & (self.made < self.min_tokens), float("-inf"))
        self.made.add_(1)
        return logits.softmax(-1)

    def gumbel(self, hidden):
        probs = (self.head(hidden) / self.temperature).softmax(-1)
        noise = torch.empty_like(probs).exponential_()
        return (probs / noise).argmax(-1), probs

    def biased(self, hidden):
        logits = self.head(hidden)
        if self.bias:
            logits = logits + self.bias * self.counts.clamp(max=1)
        return logits.softmax(-1)


def hidden_input(device):
    return torch.randn(BATCH, DIM, device=device)


def build_repeat(device):
    s = Sampler(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(BATCH, DIM))
        if k % 30 == 0:  # a request left row k // 30, another one takes the row
            row = (k // 30) % BATCH
            s.counts[row].zero_()
            s.penalty[row].fill_(1.0 + 0.1 * (k // 30 % 3))
            s.temperature[row].fill_(0.7)

    return graphsafe.Step(s.repeat_step, (hidden_input(device),), refresh=refresh)


def build_min_tokens_host(device):
    s = Sampler(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(BATCH, DIM))
        s.generated += 1

    def new_request():
        s.generated = 0

    return graphsafe.Step(s.min_tokens_host, (hidden_input(device),), refresh=refresh, reset=new_request)


def build_min_tokens_device(device):
    s = Sampler(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(BATCH, DIM))

    return graphsafe.Step(s.min_tokens_device, (hidden_input(device),), refresh=refresh, reset=lambda: s.made.zero_())


def build_gumbel(device):
    s = Sampler(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(BATCH, DIM))

    return graphsafe.Step(s.gumbel, (hidden_input(device),), refresh=refresh)


def build_logit_bias(device):
    s = Sampler(device)
    s.counts.fill_(1.0)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(BATCH, DIM))
        if k % 50 == 0:  # a new batch of requests; the third batch asks for a bias
            s.counts.copy_((torch.rand(BATCH, VOCAB) < 0.2).float())
            s.bias = -2.0 if k // 50 % 3 == 2 else 0.0

    return graphsafe.Step(s.biased, (hidden_input(device),), refresh=refresh)


class Verifier:
    """Verifies drafted tokens against the target model."""

    def __init__(self, device, drafts=4):
        self.head = nn.Linear(DIM, VOCAB).to(device).requires_grad_(False)
        self.drafts = drafts
        self.lens = torch.zeros(BATCH, dtype=torch.long, device=device)

    def device_accept(self, hidden, draft):
        target = self.head(hidden).argmax(-1)
        same = (target[:, :-1] == draft).long()
        accepted = same.cumprod(1).sum(1)
        bonus = target.gather(1, accepted[:, None])
        self.lens.add_(accepted + 1)
        return accepted, bonus, self.lens.clone()

    def host_accept(self, hidden, draft):
        target = self.head(hidden).argmax(-1)
        same = (target[:, :-1] == draft).long()
        n = int(same.cumprod(1).sum(1).min())
        return target[:, : n + 1]


def verifier_step(v, fn, device):
    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(BATCH, v.drafts + 1, DIM))
        guess = torch.randint(0, VOCAB, (BATCH, v.drafts))
        right = v.head(args[0]).argmax(-1)[:, :-1]
        args[1].copy_(guess)
        args[1][:, :2].copy_(right[:, :2])

    args = (
        torch.randn(BATCH, v.drafts + 1, DIM, device=device),
        torch.zeros(BATCH, v.drafts, dtype=torch.long, device=device),
    )
    return graphsafe.Step(fn, args, refresh=refresh)


def build_spec_device(device):
    v = Verifier(device)
    return verifier_step(v, v.device_accept, device)


def build_spec_host(device):
    v = Verifier(device)
    return verifier_step(v, v.host_accept, device)


class Drafter:
    """Drafts a few tokens in one graph; their number follows the acceptance rate."""

    def __init__(self, device):
        self.emb = nn.Embedding(VOCAB, DIM).to(device).requires_grad_(False)
        self.cell = nn.GRUCell(DIM, DIM).to(device).requires_grad_(False)
        self.head = nn.Linear(DIM, VOCAB).to(device).requires_grad_(False)
        self.depth = 4
        self.rates = []

    def observe(self, rate):
        self.rates.append(rate)
        if len(self.rates) == 100:
            self.depth = 2 if sum(self.rates) / 100 < 0.6 else 4
            self.rates.clear()

    def step(self, token, h):
        drafted = []
        for _ in range(self.depth):
            h = self.cell(self.emb(token), h)
            token = self.head(h).argmax(-1)
            drafted.append(token)
        return h, torch.stack(drafted)


def build_draft_depth(device):
    d = Drafter(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randint(0, VOCAB, (BATCH,)))
        args[1].copy_(torch.randn(BATCH, DIM))
        d.observe(0.8 if k < 90 else 0.5)

    args = (torch.zeros(BATCH, dtype=torch.long, device=device), torch.zeros(BATCH, DIM, device=device))
    return graphsafe.Step(d.step, args, refresh=refresh)


class MoE(nn.Module):
    def __init__(self, experts=4, top=2):
        super().__init__()
        self.top = top
        self.experts = experts
        self.gate = nn.Linear(DIM, experts)
        self.w = nn.Parameter(torch.randn(experts, DIM, DIM) * 0.2)
        self.register_buffer("where", torch.arange(experts))

    def route(self, x):
        weights, chosen = self.gate(x).softmax(-1).topk(self.top, -1)
        return weights / weights.sum(-1, keepdim=True), chosen


class DenseMoE(MoE):
    def forward(self, x):
        weights, chosen = self.route(x)
        physical = self.where[chosen]
        return torch.einsum("bt,btij,bj->bi", weights, self.w[physical], x)


class SparseMoE(MoE):
    def forward(self, x):
        weights, chosen = self.route(x)
        out = torch.zeros_like(x)
        for e in range(self.experts):
            row, slot = torch.where(chosen == e)
            out.index_add_(0, row, (x[row] @ self.w[e].t()) * weights[row, slot, None])
        return out


def build_moe_rebalanced(device):
    model = DenseMoE().to(device).requires_grad_(False)

    def rebalance():  # experts move to other places; the map follows them
        order = torch.tensor([2, 0, 3, 1])
        model.w.copy_(model.w[order.to(device)].clone())
        model.where.copy_(torch.argsort(order))

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(BATCH, DIM))

    return graphsafe.Step(model, (hidden_input(device),), refresh=refresh, events={"rebalance": rebalance})


def build_moe_remapped(device):
    model = DenseMoE().to(device).requires_grad_(False)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(BATCH, DIM))
        if k and k % 120 == 0:  # experts move to other places every 120 steps
            order = torch.tensor([2, 0, 3, 1], device=device)
            model.w.copy_(model.w[order].clone())
            model.where = torch.argsort(order)[model.where]

    return graphsafe.Step(model, (hidden_input(device),), refresh=refresh)


def build_moe_where(device):
    model = SparseMoE().to(device).requires_grad_(False)
    return model, (hidden_input(device),)


class LoraLinear(nn.Module):
    def __init__(self, slots=3, rank=4):
        super().__init__()
        self.base = nn.Linear(DIM, DIM)
        self.register_buffer("a", torch.randn(slots, rank, DIM) * 0.1)
        self.register_buffer("b", torch.randn(slots, DIM, rank) * 0.1)
        self.register_buffer("scales", torch.ones(slots))
        self.register_buffer("index", torch.zeros(BATCH, dtype=torch.long))
        self.scaling = 1.0

    def forward(self, x):
        low = torch.einsum("brd,bd->br", self.a[self.index], x)
        delta = torch.einsum("bdr,br->bd", self.b[self.index], low)
        return self.base(x) + delta * self.scales[self.index, None]


class OneLora(LoraLinear):
    def forward(self, x):
        delta = (x @ self.a[0].t()) @ self.b[0].t()
        return self.base(x) + self.scaling * delta


def build_lora_slots(device):
    model = LoraLinear().to(device).requires_grad_(False)

    def load_adapter():
        model.a[1].copy_(torch.randn(4, DIM) * 0.2)
        model.b[1].copy_(torch.randn(DIM, 4) * 0.2)
        model.scales[1].fill_(2.0)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(BATCH, DIM))
        model.index.copy_(torch.randint(0, 3, (BATCH,)))
        if k % 70 == 69:
            load_adapter()

    return graphsafe.Step(model, (hidden_input(device),), refresh=refresh, events={"load adapter": load_adapter})


def build_lora_alpha(device):
    model = OneLora().to(device).requires_grad_(False)

    def load_adapter():
        rank, alpha = 4, 16
        model.a[0].copy_(torch.randn(4, DIM) * 0.2)
        model.b[0].copy_(torch.randn(DIM, 4) * 0.2)
        model.scaling = alpha / rank

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(BATCH, DIM))

    return graphsafe.Step(model, (hidden_input(device),), refresh=refresh, events={"load adapter": load_adapter})


class Int8Linear(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("q", torch.zeros(DIM, DIM, dtype=torch.int8))
        self.register_buffer("scale", torch.ones(DIM, 1))
        self.load(torch.randn(DIM, DIM) * 0.1)

    def load(self, weight):
        scale = weight.abs().amax(1, keepdim=True) / 127
        self.q.copy_((weight / scale).round())
        self.scale.copy_(scale)

    def forward(self, x):
        amax = x.abs().amax(-1, keepdim=True).clamp(min=1e-6)
        xq = (x / amax * 127).round()
        return F.linear(xq, self.q.float()) * (amax / 127) * self.scale.t()


class StaticScaleLinear(Int8Linear):
    """Keeps a running range of the activations for the first calls, then the range is fixed."""

    def __init__(self, calibrate=60):
        super().__init__()
        self.left = calibrate
        self.register_buffer("range", torch.full((1,), 1e-3))

    def forward(self, x):
        if self.left > 0:
            self.left -= 1
            self.range.copy_(torch.maximum(self.range, x.abs().amax()))
        xq = (x / self.range * 127).round().clamp(-127, 127)
        return F.linear(xq, self.q.float()) * (self.range / 127) * self.scale.t()


def build_int8_reload(device):
    model = Int8Linear().to(device)

    def reload():
        model.load(torch.randn(DIM, DIM, device=device) * 0.3)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(BATCH, DIM))

    return graphsafe.Step(model, (hidden_input(device),), refresh=refresh, events={"reload": reload})


def build_int8_calibrating(device):
    model = StaticScaleLinear().to(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(BATCH, DIM) * (1 + k / 20))

    return graphsafe.Step(model, (hidden_input(device),), refresh=refresh)


class Server:
    def __init__(self, device):
        self.device = device
        self.model = nn.Sequential(nn.Linear(DIM, DIM), nn.SiLU(), nn.Linear(DIM, DIM)).to(device).requires_grad_(False)
        self.cache = torch.zeros(16, DIM, device=device)
        self.slot = torch.zeros(BATCH, dtype=torch.long, device=device)
        self.host = None

    def step(self, x):
        y = self.model(x)
        self.cache.index_copy_(0, self.slot, y)
        return y + self.cache.mean(0)

    def feed(self, args, kwargs, k):
        args[0].copy_(torch.randn(BATCH, DIM))
        self.slot.copy_((torch.arange(BATCH) + k) % 16)

    def sleep_free(self):
        for p in self.model.parameters():
            p.data = p.data.to("cpu", copy=True)

    def wake_new(self):
        for p in self.model.parameters():
            p.data = p.data.to(self.device)

    def sleep_keep(self):  # as with a memory saver: the addresses stay, the content goes
        self.host = [p.detach().to("cpu", copy=True) for p in self.model.parameters()]
        for p in self.model.parameters():
            p.zero_()

    def wake_keep(self):
        for p, h in zip(self.model.parameters(), self.host):
            p.copy_(h)

    def flush(self):
        self.cache.zero_()

    def flush_new(self):
        self.cache = torch.zeros(16, DIM, device=self.device)


def build_sleep_keep(device):
    s = Server(device)

    def nap():
        s.sleep_keep()
        s.wake_keep()

    return graphsafe.Step(s.step, (hidden_input(device),), refresh=s.feed, events={"sleep and wake": nap, "flush": s.flush})


def build_sleep_new(device):
    s = Server(device)

    def nap():
        s.sleep_free()
        s.wake_new()
        for p in s.model.parameters():  # the trainer sends its new weights
            p.add_(0.01)

    return graphsafe.Step(s.step, (hidden_input(device),), refresh=s.feed, events={"sleep, wake and update": nap})


def build_flush_new(device):
    s = Server(device)

    def refresh(args, kwargs, k):
        s.feed(args, kwargs, k)
        if k % 64 == 63:  # the pool of prefixes is dropped from time to time
            s.flush_new()

    return graphsafe.Step(s.step, (hidden_input(device),), refresh=refresh)
