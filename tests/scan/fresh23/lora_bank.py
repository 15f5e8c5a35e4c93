"""Batched LoRA: each row of the batch names its adapter, all adapters sit in one stacked tensor."""
import math

import torch
from torch import nn


class LoraBank(nn.Module):
    """Slot 0 is the identity: its matrices are zero."""

    def __init__(self, slots, rank, fin, fout):
        super().__init__()
        self.register_buffer("down", torch.zeros(slots, fin, rank))
        self.register_buffer("up", torch.zeros(slots, rank, fout))
        self.register_buffer("gain", torch.zeros(slots))

    @torch.no_grad()
    def load(self, slot, down, up, alpha):
        rank = down.shape[1]
        self.down[slot].zero_()[:, :rank].copy_(down)
        self.up[slot].zero_()[:rank].copy_(up)
        self.gain[slot : slot + 1].fill_(alpha / math.sqrt(rank))

    def forward(self, x, slot):
        low = torch.bmm(x[:, None], self.down[slot])
        return torch.bmm(low, self.up[slot])[:, 0] * self.gain[slot, None]


class LoraMLP(nn.Module):
    def __init__(self, dim, hidden, slots, rank):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(dim, hidden), nn.Linear(hidden, dim)
        self.lora1 = LoraBank(slots, rank, dim, hidden)
        self.lora2 = LoraBank(slots, rank, hidden, dim)

    def forward(self, x, slot):
        h = nn.functional.gelu(self.fc1(x) + self.lora1(x, slot))
        return x + self.fc2(h) + self.lora2(h, slot)


class Worker:
    def __init__(self, device, dim=16, slots=5, rank=4):
        self.layers = nn.ModuleList(LoraMLP(dim, 2 * dim, slots, rank) for _ in range(2))
        self.layers.to(device).requires_grad_(False)
        self.names = {"base": 0}
        self.dropout = 0.1
        self.hits = torch.zeros(slots, device=device)
        self.logits = torch.zeros(4, dim, device=device)

    def install(self, name, rank, alpha, seed):
        slot = self.names.setdefault(name, len(self.names))
        gen = torch.Generator().manual_seed(seed)
        for layer in self.layers:
            for bank, linear in ((layer.lora1, layer.fc1), (layer.lora2, layer.fc2)):
                down = torch.randn(linear.in_features, rank, generator=gen) / linear.in_features**0.5
                bank.load(slot, down, torch.randn(rank, linear.out_features, generator=gen), alpha)

    def step(self, x, slot):
        self.hits.index_add_(0, slot, torch.ones_like(slot, dtype=self.hits.dtype))
        for layer in self.layers:
            x = layer(x, slot)
        kept = torch.rand_like(x) >= self.dropout
        self.logits.copy_(torch.where(kept, x, 0.0) / (1 - self.dropout))
        return self.logits.log_softmax(-1)


def build(device):
    torch.manual_seed(17)
    worker = Worker(device)
    for i, (name, rank, alpha) in enumerate((("sql", 2, 8.0), ("chat", 4, 16.0), ("code", 3, 4.0))):
        worker.install(name, rank, alpha, seed=i)
    x = torch.randn(4, 16, device=device)
    slot = torch.tensor([0, 3, 1, 2], device=device)
    return worker.step, (x, slot)
