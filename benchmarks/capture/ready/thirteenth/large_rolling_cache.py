"""Long-context layer with a cache of 96 MiB, written at device positions and read through a strided view of one head group."""
import torch
import torch.nn as nn

import graphsafe

SLOTS, HEADS, DIM, BATCH = 6144, 8, 64, 8


class LongCache:
    def __init__(self, device):
        dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
        self.cache = torch.zeros(2, SLOTS, HEADS, DIM, BATCH, dtype=torch.bfloat16, device=device)
        self.project = nn.Linear(64, 2 * HEADS * DIM, dtype=dtype, device=device).requires_grad_(False)
        self.position = torch.zeros(BATCH, dtype=torch.long, device=device)
        self.x = torch.zeros(BATCH, 64, dtype=dtype, device=device)
        self.group = self.cache[:, ::48, 2:4]  # the sink and every 48th slot, for two heads

    def step(self):
        kv = self.project(self.x).view(BATCH, 2, HEADS, DIM).to(torch.bfloat16)
        rows = torch.arange(BATCH, device=kv.device)
        slot = self.position.remainder(SLOTS)
        self.cache[0].permute(3, 0, 1, 2).index_put_((rows, slot), kv[:, 0])
        self.cache[1].permute(3, 0, 1, 2).index_put_((rows, slot), kv[:, 1])
        keys, values = self.group.float().unbind(0)
        scores = torch.einsum("bhd,thdb->bht", kv[:, 0, 2:4].float(), keys) / 8
        self.position.add_(48)
        return torch.einsum("bht,thdb->bhd", scores.softmax(-1), values), self.position

    def reset(self):
        self.cache.zero_()
        self.position.zero_()


def build(device):
    layer = LongCache(device)
    return graphsafe.Step(layer.step, (), {}, refresh=lambda args, kwargs, k: layer.x.copy_(torch.randn(BATCH, 64)), reset=layer.reset)
