import math
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F

from graphsafe import Step


class StaticKV(nn.Module):
    def __init__(self, batch, heads, length, dim):
        super().__init__()
        self.register_buffer("k", torch.zeros(batch, heads, length, dim))
        self.register_buffer("v", torch.zeros(batch, heads, length, dim))
        self.register_buffer("pos", torch.zeros(1, dtype=torch.long))

    def append(self, k, v):
        self.k.index_copy_(2, self.pos, k)
        self.v.index_copy_(2, self.pos, v)
        valid = torch.arange(self.k.shape[2], device=k.device) <= self.pos
        return self.k, self.v, valid


class DecoderLayer(nn.Module):
    def __init__(self, dim, heads, length, batch):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)
        self.cache = StaticKV(batch, heads, length, dim // heads)

    def forward(self, x):
        b, s, d = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, s, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        k, v, valid = self.cache.append(k, v)
        att = F.scaled_dot_product_attention(q, k, v, attn_mask=valid[None, None, None, :])
        return x + self.out(att.transpose(1, 2).reshape(b, s, d))


def build_static_cache(device, batch=2):
    """Sound: the position is a device tensor which the step itself advances, so that each replay writes the next row."""
    layers = nn.Sequential(*[DecoderLayer(32, 4, 48, batch) for _ in range(2)]).to(device).eval()
    head = nn.Linear(32, 50).to(device)
    embed = nn.Embedding(50, 32).to(device)
    caches = [layer.cache for layer in layers]

    @torch.inference_mode(False)
    def reset():
        for c in caches:
            c.k.zero_(), c.v.zero_(), c.pos.zero_()

    @torch.no_grad()
    def decode(tokens):
        logits = head(layers(embed(tokens)))[:, -1]
        for c in caches:
            c.pos.add_(1).remainder_(48)
        return logits

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randint(0, 50, (batch, 1)))

    return Step(decode, (torch.zeros(batch, 1, dtype=torch.long, device=device),), refresh=refresh, reset=reset)


class PagedRunner:
    """Paged cache: slot_mapping and block_table live on the device."""

    BS = 8

    def __init__(self, device, batch=3, blocks=40, per_seq=8, dim=16):
        self.device = device
        self.batch, self.per_seq = batch, per_seq
        self.kv = torch.zeros(2, blocks, self.BS, dim, device=device)
        self.wq = nn.Linear(dim, dim, bias=False).to(device)
        self.wkv = nn.Linear(dim, 2 * dim, bias=False).to(device)
        self.hidden = torch.randn(batch, dim, device=device)
        self.table = torch.zeros(batch, per_seq, dtype=torch.long, device=device)
        self.slots = torch.zeros(batch, dtype=torch.long, device=device)
        self.lens = torch.ones(batch, dtype=torch.long, device=device)
        self.host_lens = [3, 1, 5]
        self.host_table = [[b * per_seq + j + 1 for j in range(per_seq)] for b in range(batch)]
        self.max_blocks = 1
        self.plan()

    def plan(self):
        for i, n in enumerate(self.host_lens):
            if n >= self.BS * self.per_seq:
                self.host_lens[i] = 0
        pos = self.host_lens
        rows = [self.host_table[i][p // self.BS] * self.BS + p % self.BS for i, p in enumerate(pos)]
        self.slots.copy_(torch.tensor(rows))
        self.host_lens = [n + 1 for n in pos]
        self.lens.copy_(torch.tensor(self.host_lens))
        self.table.copy_(torch.tensor(self.host_table))
        self.max_blocks = max((n + self.BS - 1) // self.BS for n in self.host_lens)
        self.hidden.copy_(torch.randn(self.hidden.shape))

    def write(self, kv):
        k, v = kv.chunk(2, dim=-1)
        flat = self.kv.view(2, -1, kv.shape[-1] // 2)
        flat[0].index_copy_(0, self.slots, k)
        flat[1].index_copy_(0, self.slots, v)

    def attend(self, q, table):
        k = self.kv[0][table].flatten(1, 2)
        v = self.kv[1][table].flatten(1, 2)
        score = torch.einsum("bd,bsd->bs", q, k) / math.sqrt(q.shape[-1])
        inside = torch.arange(k.shape[1], device=q.device)[None] < self.lens[:, None]
        return torch.einsum("bs,bsd->bd", score.masked_fill(~inside, float("-inf")).softmax(-1), v)


def build_paged(device):
    """Sound: the scheduler rewrites table, slots and lengths in place, and the step reads the full width of the table."""
    runner = PagedRunner(device)

    @torch.no_grad()
    def forward():
        runner.write(runner.wkv(runner.hidden))
        return runner.attend(runner.wq(runner.hidden), runner.table)

    return Step(forward, refresh=lambda args, kwargs, k: runner.plan())


def build_paged_max_blocks(device):
    """Faulty: the number of table columns is a Python int of the scheduler, frozen at capture while sequences grow."""
    runner = PagedRunner(device)

    @torch.no_grad()
    def forward():
        runner.write(runner.wkv(runner.hidden))
        q = runner.wq(runner.hidden)
        used = runner.table[:, : runner.max_blocks]
        return runner.attend(q, used)

    return Step(forward, refresh=lambda args, kwargs, k: runner.plan())


class DynamicRotary(nn.Module):
    """Cos and sin tables which grow with the longest position, as in dynamic NTK."""

    def __init__(self, dim, length, device):
        super().__init__()
        self.dim, self.base = dim, 10000.0
        self.length = 0
        self.ensure(length, device)

    def ensure(self, length, device):
        if length <= self.length:
            return
        self.length = max(length, 2 * self.length)
        inv = 1.0 / (self.base ** (torch.arange(0, self.dim, 2).float() / self.dim))
        angle = torch.outer(torch.arange(self.length).float(), inv)
        self.cos = angle.cos().to(device)
        self.sin = angle.sin().to(device)

    def forward(self, x, positions):
        cos, sin = self.cos[positions], self.sin[positions]
        a, b = x.chunk(2, dim=-1)
        return torch.cat((a * cos - b * sin, a * sin + b * cos), dim=-1)


def build_rope_grow(device, batch=4):
    """Faulty: when positions pass the table's length the loop makes new tables, and the graph goes on reading the old ones."""
    rope = DynamicRotary(16, 64, device)
    proj = nn.Linear(16, 16).to(device)
    state = {"next": 8}

    @torch.no_grad()
    def step(x, positions):
        return rope(proj(x), positions)

    def refresh(args, kwargs, k):
        state["next"] = state["next"] + 1 if state["next"] < 200 else 8
        rope.ensure(state["next"] + 1, device)
        args[0].copy_(torch.randn(batch, 16))
        args[1].fill_(state["next"]).sub_(torch.arange(batch, device=device))

    return Step(step, (torch.randn(batch, 16, device=device), torch.arange(batch, device=device)), refresh=refresh)


@dataclass
class Verified:
    tokens: torch.Tensor
    accepted: torch.Tensor
    bonus: torch.Tensor


def build_spec_verify(device, batch=3, k=4, vocab=24):
    """Sound: acceptance is a cumulative product of comparisons on the device with a fixed draft length."""
    lm = nn.Sequential(nn.Embedding(vocab, 16), nn.Linear(16, 16), nn.GELU(), nn.Linear(16, vocab)).to(device)
    lengths = torch.zeros(batch, dtype=torch.long, device=device)

    @torch.no_grad()
    def verify(context, draft, draft_probs):
        target = lm(torch.cat((context[:, None], draft), 1)).softmax(-1)
        p = target[:, :k].gather(2, draft[..., None]).squeeze(-1)
        ok = torch.rand(batch, k, device=device) < (p / draft_probs.clamp_min(1e-6)).clamp(max=1.0)
        accepted = ok.long().cumprod(1).sum(1)
        row = target.gather(1, accepted[:, None, None].expand(-1, 1, vocab)).squeeze(1)
        bonus = (row.log() - torch.empty_like(row).exponential_().log()).argmax(-1)
        keep = torch.arange(k, device=device)[None] < accepted[:, None]
        lengths.add_(accepted + 1)
        return Verified(torch.where(keep, draft, -1), accepted, bonus)

    def refresh(args, kwargs, i):
        args[0].copy_(torch.randint(0, vocab, (batch,)))
        args[1].copy_(torch.randint(0, vocab, (batch, k)))
        args[2].copy_(torch.rand(batch, k) * 0.1)

    args = (
        torch.zeros(batch, dtype=torch.long, device=device),
        torch.zeros(batch, k, dtype=torch.long, device=device),
        torch.full((batch, k), 0.05, device=device),
    )
    return Step(verify, args, refresh=refresh, reset=lengths.zero_)


class AdaptiveDrafter:
    def __init__(self, device, vocab=24):
        self.embed = nn.Embedding(vocab, 16).to(device)
        self.cell = nn.GRUCell(16, 16).to(device)
        self.head = nn.Linear(16, vocab).to(device)
        self.max_k, self.num_draft = 6, 4
        self.rate, self.seen = 0.8, 0
        self.out = torch.zeros(2, self.max_k, vocab, device=device)

    @torch.no_grad()
    def draft(self, token, hidden):
        self.out.zero_()
        for i in range(self.num_draft):
            hidden = self.cell(self.embed(token), hidden)
            logits = self.head(hidden)
            self.out[:, i].copy_(logits)
            token = logits.argmax(-1)
        return self.out.clone(), hidden

    def observe(self, rate):
        self.seen += 1
        self.rate = 0.9 * self.rate + 0.1 * rate
        if self.seen % 20 == 0:
            self.num_draft = 6 if self.rate > 0.7 else 2


def build_spec_adaptive(device):
    """Faulty: the drafter's length is tuned by the loop from the acceptance rate, but the loop over it is unrolled at capture."""
    drafter = AdaptiveDrafter(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randint(0, 24, (2,)))
        args[1].copy_(torch.randn(2, 16))
        drafter.observe(0.3 if (k // 40) % 2 == 0 else 1.0)

    return Step(drafter.draft, (torch.zeros(2, dtype=torch.long, device=device), torch.zeros(2, 16, device=device)), refresh=refresh)


class WindowAttention(nn.Module):
    def __init__(self, dim, window, batch):
        super().__init__()
        self.window = window
        self.q, self.k, self.v = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.register_buffer("past_k", torch.zeros(batch, window, dim))
        self.register_buffer("past_v", torch.zeros(batch, window, dim))

    def forward(self, x):
        k = torch.cat((self.past_k, self.k(x)), dim=1)[:, -self.window :]
        v = torch.cat((self.past_v, self.v(x)), dim=1)[:, -self.window :]
        self.past_k, self.past_v = k, v
        return F.scaled_dot_product_attention(self.q(x), k, v)


def build_sliding_cat(device, batch=2):
    """Faulty: the window is replaced by a new tensor each step, so that replays always start from the window of capture."""
    model = WindowAttention(16, 12, batch).to(device).eval()
    model.requires_grad_(False)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(batch, 1, 16))

    return Step(model, (torch.randn(batch, 1, 16, device=device),), refresh=refresh)


class MambaMixer(nn.Module):
    def __init__(self, dim, kernel, states, batch):
        super().__init__()
        self.in_proj = nn.Linear(dim, 2 * dim)
        self.weight = nn.Parameter(torch.randn(dim, kernel) * 0.3)
        self.dt = nn.Linear(dim, dim)
        self.bc = nn.Linear(dim, 2 * states)
        self.a_log = nn.Parameter(torch.log(torch.arange(1, states + 1).float()).repeat(dim, 1))
        self.out = nn.Linear(dim, dim)
        self.register_buffer("conv_state", torch.zeros(batch, dim, kernel))
        self.register_buffer("ssm_state", torch.zeros(batch, dim, states))

    def step(self, x):
        x, gate = self.in_proj(x).chunk(2, dim=-1)
        self.conv_state.copy_(torch.roll(self.conv_state, shifts=-1, dims=-1))
        self.conv_state[:, :, -1] = x
        x = F.silu((self.conv_state * self.weight).sum(-1))
        dt = F.softplus(self.dt(x))
        b, c = self.bc(x).chunk(2, dim=-1)
        decay = torch.exp(-dt[..., None] * self.a_log.exp())
        self.ssm_state.copy_(self.ssm_state * decay + (dt * x)[..., None] * b[:, None, :])
        return self.out((self.ssm_state * c[:, None, :]).sum(-1) * F.silu(gate))


def build_conv_state(device, batch=2):
    """Sound: convolution and state-space states are rolled and written in place on the device."""
    mixer = MambaMixer(12, 4, 6, batch).to(device).requires_grad_(False)

    def reset():
        mixer.conv_state.zero_()
        mixer.ssm_state.zero_()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(batch, 12))

    return Step(mixer.step, (torch.randn(batch, 12, device=device),), refresh=refresh, reset=reset)


class Beams:
    def __init__(self, device, beams=4, vocab=20, length=16):
        self.beams, self.vocab, self.length = beams, vocab, length
        self.lm = nn.Sequential(nn.Embedding(vocab, 16), nn.Linear(16, vocab)).to(device)
        self.scores = torch.zeros(beams, device=device)
        self.tokens = torch.zeros(beams, dtype=torch.long, device=device)
        self.history = torch.zeros(beams, length, dtype=torch.long, device=device)
        self.t = torch.zeros(1, dtype=torch.long, device=device)
        self.cur_len = 0

    def start(self, token):
        self.tokens.fill_(token)
        self.scores.fill_(-1e4)
        self.scores[:1].zero_()
        self.history.zero_()
        self.t.zero_()
        self.cur_len = 0

    def advance(self, logp):
        total = (self.scores[:, None] + logp).view(-1)
        best, index = total.topk(self.beams)
        parent, token = index // self.vocab, index % self.vocab
        self.history.copy_(self.history.index_select(0, parent))
        self.history.index_copy_(1, self.t, token[:, None])
        self.scores.copy_(best)
        self.tokens.copy_(token)
        self.t.add_(1).clamp_(max=self.length - 1)
        return best, self.history.clone()


def build_beam(device):
    """Sound: beams, scores, histories and the time index are device tensors written in place, and the loop restarts them in place."""
    beams = Beams(device)
    beams.start(1)

    @torch.no_grad()
    def step():
        return beams.advance(beams.lm(beams.tokens).log_softmax(-1))

    def refresh(args, kwargs, k):
        if k % 12 == 0:
            beams.start(int(torch.randint(1, beams.vocab, ())))

    return Step(step, refresh=refresh)


def build_beam_first(device):
    """Faulty: the first token of a request takes another branch on a Python length, which a replay never takes again."""
    beams = Beams(device)
    beams.start(1)
    beams.scores.zero_()

    @torch.no_grad()
    def step():
        logp = beams.lm(beams.tokens).log_softmax(-1)
        if beams.cur_len == 0:
            logp = logp + torch.cat((torch.zeros(1, 1, device=device), torch.full((beams.beams - 1, 1), -1e4, device=device)))
        return beams.advance(logp)

    def refresh(args, kwargs, k):
        beams.cur_len += 1
        if k % 12 == 11:
            beams.start(int(torch.randint(1, beams.vocab, ())))
            beams.scores.zero_()

    return Step(step, refresh=refresh)
