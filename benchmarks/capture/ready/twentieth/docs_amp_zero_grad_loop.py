"""GPT-style pretraining step: the loop calls zero_grad(set_to_none=True) after each step, as in nanoGPT's train.py."""
import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe


class Block(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.ln1, self.ln2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.attn, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (u.view(b, t, self.h, -1).transpose(1, 2) for u in self.attn(self.ln1(x)).chunk(3, -1))
        x = x + self.proj(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, d))
        return x + self.mlp(self.ln2(x))


class GPT(nn.Module):
    def __init__(self, vocab=48, d=16, t=16):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, d), nn.Embedding(t, d)
        self.blocks = nn.Sequential(Block(d, 2), Block(d, 2))
        self.ln = nn.LayerNorm(d)

    def forward(self, ids, targets):
        pos = torch.arange(ids.shape[1], device=ids.device)
        x = self.ln(self.blocks(self.wte(ids) + self.wpe(pos)))
        return F.cross_entropy((x @ self.wte.weight.T).flatten(0, 1), targets.flatten())


def build(device, batch=4, t=12):
    model = GPT().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1, capturable=True)
    x = torch.randint(0, 48, (batch, t), device=device)
    y = torch.randint(0, 48, (batch, t), device=device)

    def step(x, y):
        with torch.autocast("cuda", dtype=torch.bfloat16, cache_enabled=False):
            loss = model(x, y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        # flush the gradients as soon as we can, no need for this memory anymore
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randint(0, 48, (batch, t)))
        args[1].copy_(torch.randint(0, 48, (batch, t)))

    return graphsafe.Step(step, (x, y), refresh=refresh)
