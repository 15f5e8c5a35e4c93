import math

import torch
import torch.nn.functional as F
from torch import nn

import graphsafe


class SelfAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        b, t, d = x.shape
        qkv = self.qkv(x).view(b, t, 3, self.heads, d // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        att = (q @ k.transpose(-1, -2)) / math.sqrt(d // self.heads)
        y = att.softmax(-1) @ v
        return self.proj(y.transpose(1, 2).reshape(b, t, d))


class GuardedBlock(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.attn = SelfAttention(dim, heads)
        self.norm2 = nn.LayerNorm(dim)
        self.up = nn.Linear(dim, 2 * dim)
        self.down = nn.Linear(2 * dim, dim)

    def _verify(self, where, x):
        if not torch.isfinite(x).all():
            raise FloatingPointError(f"activation of {where} left the finite range")
        return x

    def forward(self, x):
        x = self._verify("attention", x + self.attn(self.norm1(x)))
        return self._verify("mlp", x + self.down(F.gelu(self.up(self.norm2(x)))))


def build_guarded_encoder(device):
    torch.manual_seed(11)
    blocks = nn.ModuleList([GuardedBlock(32, 4) for _ in range(2)]).to(device).eval()
    embed = nn.Embedding(64, 32).to(device)
    head = nn.Linear(32, 64).to(device)
    ids = torch.randint(0, 64, (2, 12), device=device)

    def step(ids):
        with torch.no_grad():
            x = embed(ids)
            for block in blocks:
                x = block(x)
            return head(x).log_softmax(-1)

    return step, (ids,)


class GrowingDecoder(nn.Module):
    def __init__(self, vocab, dim, layers):
        super().__init__()
        self.dim = dim
        self.embed = nn.Embedding(vocab, dim)
        self.norms = nn.ModuleList([nn.LayerNorm(dim) for _ in range(layers)])
        self.qkv = nn.ModuleList([nn.Linear(dim, 3 * dim) for _ in range(layers)])
        self.out = nn.ModuleList([nn.Linear(dim, dim) for _ in range(layers)])
        self.mlp = nn.ModuleList(
            [nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 2 * dim), nn.SiLU(), nn.Linear(2 * dim, dim))
             for _ in range(layers)]
        )
        self.final = nn.LayerNorm(dim)
        self.lm_head = nn.Linear(dim, vocab)
        self.cache = []

    def prefill(self, length):
        gen = torch.Generator().manual_seed(5)
        dev = self.lm_head.weight.device
        self.cache = [
            tuple(torch.randn(2, length, self.dim, generator=gen).to(dev) for _ in range(2))
            for _ in self.qkv
        ]

    def attend(self, i, x):
        q, k, v = self.qkv[i](x).chunk(3, -1)
        keys = torch.cat([self.cache[i][0], k], 1)
        values = torch.cat([self.cache[i][1], v], 1)
        self.cache[i] = (keys, values)
        weights = (q @ keys.transpose(1, 2) / math.sqrt(self.dim)).softmax(-1)
        mixed = weights @ values
        return self.out[i](mixed)

    @torch.no_grad()
    def forward(self, token):
        x = self.embed(token)
        for i, norm in enumerate(self.norms):
            x = x + self.attend(i, norm(x))
            x = x + self.mlp[i](x)
        logits = self.lm_head(self.final(x))
        return logits.argmax(-1), logits


def build_growing_cache_decode(device):
    torch.manual_seed(12)
    model = GrowingDecoder(50, 32, 3).to(device).eval()
    model.prefill(6)
    token = torch.randint(0, 50, (2, 1), device=device)
    return graphsafe.Step(model, (token,), {}, reset=lambda: model.prefill(6))


class SlotDecoder(nn.Module):
    def __init__(self, vocab, dim, heads, layers, slots):
        super().__init__()
        self.heads = heads
        self.slots = slots
        self.embed = nn.Embedding(vocab, dim)
        self.qkv = nn.ModuleList([nn.Linear(dim, 3 * dim) for _ in range(layers)])
        self.proj = nn.ModuleList([nn.Linear(dim, dim) for _ in range(layers)])
        self.ffn = nn.ModuleList([nn.Linear(dim, dim) for _ in range(layers)])
        self.lm_head = nn.Linear(dim, vocab)
        self.register_buffer("keys", torch.zeros(layers, 2, heads, slots, dim // heads))
        self.register_buffer("values", torch.zeros(layers, 2, heads, slots, dim // heads))
        self.register_buffer("slot_ids", torch.arange(slots))
        self.filled = 0

    def clear(self):
        self.keys.zero_()
        self.values.zero_()
        self.filled = 0

    def forward(self, token):
        x = self.embed(token)
        visible = self.slot_ids <= self.filled
        bias = torch.zeros_like(visible, dtype=x.dtype).masked_fill(~visible, -1e9)
        for i, (qkv, proj, ffn) in enumerate(zip(self.qkv, self.proj, self.ffn)):
            q, k, v = qkv(x).view(x.shape[0], 3, self.heads, -1).unbind(1)
            self.keys[i, :, :, self.filled] = k
            self.values[i, :, :, self.filled] = v
            att = torch.einsum("bhd,bhsd->bhs", q, self.keys[i]) + bias
            y = torch.einsum("bhs,bhsd->bhd", att.softmax(-1), self.values[i])
            x = x + proj(y.flatten(1))
            x = x + F.relu(ffn(x))
        self.filled = (self.filled + 1) % self.slots
        return {"logits": self.lm_head(x), "hidden": x}


def build_slot_cache_decode(device):
    torch.manual_seed(13)
    model = SlotDecoder(48, 32, 4, 3, 16).to(device).eval().requires_grad_(False)
    token = torch.randint(0, 48, (2,), device=device)
    return graphsafe.Step(model, (token,), {}, reset=model.clear)


class EarlyExitStack(nn.Module):
    def __init__(self, dim, classes, depth):
        super().__init__()
        self.layers = nn.ModuleList([
            nn.ModuleDict({
                "norm": nn.LayerNorm(dim),
                "attn": SelfAttention(dim, 4),
                "ff": nn.Linear(dim, dim),
                "exit": nn.Linear(dim, classes),
            })
            for _ in range(depth)
        ])
        self.calibrate = nn.Linear(classes, classes)

    def forward(self, x, confident=0.31):
        used = 0
        for layer in self.layers:
            x = x + layer["attn"](layer["norm"](x))
            x = x + torch.tanh(layer["ff"](x))
            probs = layer["exit"](x.mean(1)).softmax(-1)
            top = probs.amax(-1).mean()
            used += 1
            if top > confident:
                break
        return self.calibrate(probs.clamp_min(1e-6).log()).softmax(-1), used


def build_early_exit_stack(device):
    torch.manual_seed(14)
    model = EarlyExitStack(32, 5, 3).to(device).eval().requires_grad_(False)
    x = torch.randn(3, 10, 32, device=device)
    return model, (x,), {"confident": 0.31}


def build_speculative_verify(device):
    torch.manual_seed(15)
    vocab, dim, width, ahead = 40, 24, 12, 4
    embed = nn.Embedding(vocab, dim).to(device)
    mixer = SelfAttention(dim, 4).to(device)
    norm = nn.LayerNorm(dim).to(device)
    unembed = nn.Linear(dim, vocab).to(device)
    drafter = nn.Sequential(nn.Embedding(vocab, 16), nn.Linear(16, vocab)).to(device)

    def propose(last):
        tokens = []
        for _ in range(ahead):
            last = drafter(last).argmax(-1)
            tokens.append(last)
        return torch.stack(tokens)

    def verify(window, proposal):
        text = torch.cat([window, proposal])[None]
        hidden = embed(text)
        hidden = norm(hidden + mixer(hidden))
        logits = unembed(hidden)[0, -ahead - 1:]
        choice = logits.argmax(-1)

        def accepted(match):
            return int(match.long().cumprod(0).sum())

        agree = (choice[:-1] - proposal).abs() < 12
        return choice, logits.log_softmax(-1), accepted(agree)

    @torch.no_grad()
    def step(window):
        proposal = propose(window[-1])
        choice, scores, count = verify(window, proposal)
        correction = choice[count]
        rolled = torch.cat([window[1:], correction[None]])
        confidence = scores.exp().amax(-1)
        entropy = -(scores.exp() * scores).sum(-1)
        return {
            "window": rolled,
            "accepted": count,
            "confidence": confidence,
            "entropy": entropy.mean(),
        }

    window = torch.randint(0, vocab, (width,), device=device)
    return step, (window,)
