"""AdamW with a cosine schedule: the step ends with scheduler.step(), as in most training scripts."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe


class TinyLM(nn.Module):
    def __init__(self, vocab=64, d=32):
        super().__init__()
        self.emb = nn.Embedding(vocab, d)
        self.layer = nn.TransformerEncoderLayer(d, 4, 64, dropout=0.0, batch_first=True)
        self.head = nn.Linear(d, vocab)

    def forward(self, ids):
        return self.head(self.layer(self.emb(ids)))


def cosine(step, warmup=5, total=200):
    if step < warmup:
        return (step + 1) / warmup
    t = (step - warmup) / (total - warmup)
    return 0.5 * (1 + math.cos(math.pi * min(t, 1.0)))


def build(device, batch=4, length=12):
    model = TinyLM().to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3, capturable=True)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, cosine)
    ids = torch.randint(0, 64, (batch, length), device=device)

    def step(ids):
        opt.zero_grad(set_to_none=True)
        logits = model(ids[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        opt.step()
        sched.step()
        return loss.detach()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randint(0, 64, (batch, length)))

    return graphsafe.Step(step, (ids,), refresh=refresh)
