"""Decode-side pieces of a small serving engine."""
import itertools

import torch
from torch import nn
from graphsafe import Step

BLOCK, BLOCKS = 48, 8


class PagedCache:
    def __init__(self, rows, dim, device):
        self.rows = rows
        self.order = [0, 3, 6, 1, 5, 7, 2, 4]
        self.kv = torch.zeros(BLOCKS * BLOCK, rows, dim, device=device)
        self.table = torch.zeros(BLOCKS, dtype=torch.long, device=device)
        self.pos = torch.zeros(1, dtype=torch.long, device=device)
        self.tokens = 0

    def append(self, k):
        self.tokens += 1
        if self.tokens % BLOCK == 0:
            n = (self.tokens // BLOCK) % BLOCKS
            self.table[n : n + 1].fill_(self.order[n])
        page = self.table.index_select(0, self.pos // BLOCK)
        slot = page * BLOCK + self.pos % BLOCK
        self.kv.index_copy_(0, slot, k.unsqueeze(0))
        self.pos.add_(1).remainder_(BLOCKS * BLOCK)
        return self.kv


def build_paged(device):
    proj = nn.Linear(16, 16, device=device).requires_grad_(False)
    cache = PagedCache(4, 16, device)

    def decode(x):
        kv = cache.append(proj(x))
        score = torch.einsum("tbd,bd->tb", kv, x).softmax(0)
        return torch.einsum("tb,tbd->bd", score, kv)

    x = torch.randn(4, 16, device=device)
    return Step(decode, (x,), refresh=lambda args, kwargs, k: args[0].normal_())


class Rotary:
    def __init__(self, dim, device, rows=40):
        self.dim, self.device = dim, device
        self._fill(rows)

    def _fill(self, rows):
        inv = 1.0 / 10000 ** (torch.arange(0, self.dim, 2, device=self.device).float() / self.dim)
        angle = torch.arange(rows, device=self.device).float()[:, None] * inv
        self.rows, self.cos, self.sin = rows, angle.cos(), angle.sin()

    def ensure(self, rows):
        if rows > self.rows:
            self._fill(max(rows, 2 * self.rows))

    def __call__(self, x, pos):
        c, s = self.cos.index_select(0, pos), self.sin.index_select(0, pos)
        a, b = x.chunk(2, -1)
        return torch.cat([a * c - b * s, a * s + b * c], -1)


def build_rotary(device):
    rope = Rotary(16, device)
    x = torch.randn(8, 16, device=device)
    pos = torch.arange(8, device=device)

    def refresh(args, kwargs, k):
        args[0].normal_()
        first = k % 200
        rope.ensure(first + 8)
        args[1].copy_(torch.arange(first, first + 8))

    return Step(rope, (x, pos), refresh=refresh)


class Mlp(nn.Module):
    def __init__(self, dim, device):
        super().__init__()
        self.up = nn.Parameter(torch.randn(dim, 4 * dim, device=device) * 0.1, requires_grad=False)
        self.down = nn.Parameter(torch.randn(4 * dim, dim, device=device) * 0.1, requires_grad=False)
        self.scratch = None

    def forward(self, x):
        if self.scratch is None:
            self.scratch = x.new_empty(x.size(0), self.up.size(1))
        torch.mm(x, self.up, out=self.scratch)
        return nn.functional.gelu(self.scratch) @ self.down

    def release(self):
        self.scratch = None


def build_sleeping_mlp(device):
    mlp = Mlp(32, device)
    x = torch.randn(8, 32, device=device)
    return Step(mlp, (x,), refresh=lambda args, kwargs, k: args[0].normal_(), events={"release": mlp.release})


class Backend:
    """Attention calls arrive in layer order, so the layer is counted, not passed."""

    def __init__(self, layers, rows, dim, device):
        self.layers = layers
        self.calls = itertools.count()
        self.sums = torch.zeros(layers, rows, dim, device=device)

    def attend(self, q):
        layer = next(self.calls) % self.layers
        keep = self.sums[layer]
        keep.mul_(0.5).add_(q)
        return q * keep.sigmoid()


def build_counted_layers(device):
    backend = Backend(4, 4, 16, device)
    layers = nn.ModuleList(nn.Linear(16, 16, device=device) for _ in range(4)).requires_grad_(False)

    def decode(x):
        for layer in layers:
            x = x + backend.attend(layer(x))
        return x

    x = torch.randn(4, 16, device=device)
    return Step(decode, (x,), refresh=lambda args, kwargs, k: args[0].normal_())


class Steering:
    def __init__(self, module, dim, device):
        self.bank = torch.randn(5, dim, device=device)
        self.active = torch.zeros(1, dtype=torch.long, device=device)
        self.number = 0
        module.register_forward_hook(self.hook)

    def hook(self, module, inputs, output):
        return output + self.bank.index_select(0, self.active)

    def following(self):
        self.number = (self.number + 1) % 5
        self.active.fill_(self.number)


def build_steered(device):
    model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16)).to(device).requires_grad_(False)
    steer = Steering(model[0], 32, device)
    x = torch.randn(4, 16, device=device)
    return Step(model, (x,), refresh=lambda args, kwargs, k: args[0].normal_(), events={"following": steer.following})


def build_padded(device):
    emb = nn.Embedding(100, 16, device=device).requires_grad_(False)
    ids = torch.zeros(4, 12, dtype=torch.long, device=device)
    lengths = torch.full((4,), 3, dtype=torch.long, device=device)
    index = torch.arange(16, device=device)

    def embed(ids, lengths):
        buf = torch.empty(4, 16, 16, device=ids.device)
        buf[:, :12].copy_(emb(ids))
        live = (index < lengths[:, None]).unsqueeze(-1)
        return torch.where(live, buf, 0.0).sum(1) / lengths[:, None]

    def refresh(args, kwargs, k):
        n = 1 + k % 12
        args[0][:, :n].copy_(torch.randint(0, 100, (4, n)))
        args[1].copy_(torch.randint(1, n + 1, (4,)))

    return Step(embed, (ids, lengths), refresh=refresh)
