"""GPT pretraining step that clips more strictly during its first 300 steps."""
import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe


class Trainer:
    def __init__(self, device, warmup=300):
        self.model = nn.Sequential(nn.Embedding(40, 16), nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 40)).to(device)
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=1e-3, capturable=True)
        self.warmup, self.global_step = warmup, 0

    def step(self, ids):
        self.opt.zero_grad(set_to_none=True)
        logits = self.model(ids[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        limit = 0.1 if self.global_step < self.warmup else 1.0
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), limit)
        self.opt.step()
        self.global_step += 1
        return loss.detach(), norm


def build(device):
    torch.manual_seed(2)
    t = Trainer(device)
    ids = torch.randint(40, (4, 13), device=device)
    return graphsafe.Step(t.step, (ids,), refresh=lambda a, kw, k: a[0].copy_(torch.randint(40, (4, 13))))
