"""Language-model training step with gradient clipping that refuses non-finite gradients."""
import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe


class TinyLM(nn.Module):
    def __init__(self, vocab=64, dim=32):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.ln = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.SiLU(), nn.Linear(2 * dim, dim))
        self.head = nn.Linear(dim, vocab, bias=False)

    def forward(self, ids):
        h = self.embed(ids)
        h = h + self.mlp(self.ln(h))
        return self.head(h)


class Trainer:
    def __init__(self, device, max_norm=1.0):
        self.model = TinyLM().to(device)
        self.opt = torch.optim.Adam(self.model.parameters(), lr=3e-4, capturable=True)
        self.max_norm = max_norm

    def step(self, ids):
        self.opt.zero_grad(set_to_none=True)
        logits = self.model(ids[:, :-1])
        loss = F.cross_entropy(logits.reshape(-1, logits.size(-1)), ids[:, 1:].reshape(-1))
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.max_norm, error_if_nonfinite=True)
        self.opt.step()
        return loss.detach(), norm


def build(device):
    torch.manual_seed(0)
    trainer = Trainer(device)
    ids = torch.randint(64, (4, 17), device=device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randint(64, (4, 17)))

    return graphsafe.Step(trainer.step, (ids,), refresh=refresh)
