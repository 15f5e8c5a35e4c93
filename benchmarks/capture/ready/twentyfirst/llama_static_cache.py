"""A Llama layer stack decoding with a static cache; positions are a device tensor of the step's arguments."""
import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-5):
        super().__init__()
        self.eps, self.weight = eps, nn.Parameter(torch.ones(dim))

    def forward(self, x):
        y = x.float()
        return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps)).type_as(x) * self.weight


def apply_rotary(x, cos, sin):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)


class Layer(nn.Module):
    def __init__(self, dim=32, heads=4, kv=2, hidden=64, batch=2, ctx=32):
        super().__init__()
        self.h, self.kv, self.hd = heads, kv, dim // heads
        self.n1, self.n2 = RMSNorm(dim), RMSNorm(dim)
        self.wqkv = nn.Linear(dim, (heads + 2 * kv) * self.hd, bias=False)
        self.wo = nn.Linear(dim, dim, bias=False)
        self.w1, self.w3 = nn.Linear(dim, hidden, bias=False), nn.Linear(dim, hidden, bias=False)
        self.w2 = nn.Linear(hidden, dim, bias=False)
        self.register_buffer("kc", torch.zeros(batch, kv, ctx, self.hd), persistent=False)
        self.register_buffer("vc", torch.zeros(batch, kv, ctx, self.hd), persistent=False)

    def forward(self, x, pos, cos, sin, mask):
        b, t, d = x.shape
        qkv = self.wqkv(self.n1(x)).view(b, t, -1, self.hd).transpose(1, 2)
        q, k, v = qkv.split([self.h, self.kv, self.kv], dim=1)
        q, k = apply_rotary(q, cos, sin), apply_rotary(k, cos, sin)
        self.kc.index_copy_(2, pos, k)
        self.vc.index_copy_(2, pos, v)
        kk = self.kc.repeat_interleave(self.h // self.kv, dim=1)
        vv = self.vc.repeat_interleave(self.h // self.kv, dim=1)
        y = F.scaled_dot_product_attention(q, kk, vv, attn_mask=mask)
        x = x + self.wo(y.transpose(1, 2).reshape(b, t, d))
        z = self.n2(x)
        return x + self.w2(F.silu(self.w1(z)) * self.w3(z))


class Llama(nn.Module):
    def __init__(self, vocab=64, dim=32, layers=2, ctx=32):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.layers = nn.ModuleList(Layer(dim, ctx=ctx) for _ in range(layers))
        self.norm, self.out = RMSNorm(dim), nn.Linear(dim, vocab, bias=False)
        inv = 1.0 / (10000 ** (torch.arange(0, 8, 2).float() / 8))
        f = torch.outer(torch.arange(ctx).float(), inv)
        self.register_buffer("cos", f.cos(), persistent=False)
        self.register_buffer("sin", f.sin(), persistent=False)
        self.register_buffer("causal", torch.ones(ctx, ctx, dtype=torch.bool).tril(), persistent=False)

    def forward(self, ids, pos):
        mask = self.causal[None, None, pos]
        cos, sin = self.cos[pos], self.sin[pos]
        x = self.tok(ids)
        for layer in self.layers:
            x = layer(x, pos, cos, sin, mask)
        return self.out(self.norm(x))[:, -1]


def build(device):
    torch.manual_seed(0)
    model = Llama().to(device).eval().requires_grad_(False)
    model(torch.randint(64, (2, 8), device=device), torch.arange(8, device=device))
    ids = torch.randint(64, (2, 1), device=device)
    pos = torch.tensor([8], device=device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randint(64, (2, 1)))
        args[1].fill_(8 + k % 24)

    return graphsafe.Step(model, (ids, pos), refresh=refresh)
