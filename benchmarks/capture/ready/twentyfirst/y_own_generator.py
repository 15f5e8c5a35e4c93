"""Masked-token corruption that draws from a generator of its own on the device."""
import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe


class Corrupter:
    def __init__(self, device, mask_id=0, prob=0.15, seed=1234):
        self.gen = torch.Generator(device=device)
        self.gen.manual_seed(seed)
        self.mask_id, self.prob = mask_id, prob

    def __call__(self, ids):
        draw = torch.rand(ids.shape, generator=self.gen, device=ids.device)
        masked = draw < self.prob
        return torch.where(masked, self.mask_id, ids), masked


class MLM(nn.Module):
    def __init__(self, vocab=40, dim=16):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.mix = nn.Conv1d(dim, dim, 3, padding=1)
        self.out = nn.Linear(dim, vocab)

    def forward(self, ids):
        h = self.embed(ids).transpose(1, 2)
        return self.out(F.gelu(self.mix(h)).transpose(1, 2))


def build(device):
    torch.manual_seed(4)
    model = MLM().to(device)
    corrupt = Corrupter(device)
    ids = torch.randint(1, 40, (4, 12), device=device)

    @torch.no_grad()
    def evaluate(ids):
        noisy, masked = corrupt(ids)
        loss = F.cross_entropy(model(noisy).flatten(0, 1), ids.flatten(), reduction="none").view_as(masked)
        return (loss * masked).sum() / masked.sum().clamp_min(1)

    return graphsafe.Step(evaluate, (ids,), refresh=lambda a, kw, k: a[0].copy_(torch.randint(1, 40, (4, 12))))
