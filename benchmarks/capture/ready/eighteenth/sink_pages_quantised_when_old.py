"""Decoding rounds the oldest page of its cache: faulty, the scheduler orders this by a flag."""
import torch

import graphsafe


class Cache:
    def __init__(self, device, pages=64, page=64, dim=128):
        self.keys = torch.randn(pages, page, dim, device=device)
        self.slot = torch.zeros(1, dtype=torch.long, device=device)
        self.page = torch.zeros(1, dtype=torch.long, device=device)
        self.oldest = torch.full((1,), 63, dtype=torch.long, device=device)
        self.is_full = False

    def append(self, key):
        self.keys.view(-1, key.shape[-1]).index_copy_(0, self.page * 64 + self.slot, key)

    def round_oldest(self):
        page = self.keys.index_select(0, self.oldest)
        unit = page.abs().amax(-1, keepdim=True) / 127
        self.keys.index_copy_(0, self.oldest, torch.round(page / unit) * unit)


def build(device, dim=128):
    cache = Cache(device, dim=dim)
    project = torch.randn(dim, dim, device=device) / dim**0.5

    def decode(hidden):
        key = hidden @ project
        cache.append(key)
        window = cache.keys.index_select(0, cache.page)[0]
        out = torch.softmax(hidden @ window.T / dim**0.5, -1) @ window
        if cache.is_full:
            cache.round_oldest()
        return out

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(1, dim))
        cache.slot.fill_(k % 64)
        cache.page.fill_(k // 64 % 32)
        cache.is_full = k % 40 == 39
        cache.oldest.fill_(63 - k // 40)

    return graphsafe.Step(decode, (torch.randn(1, dim, device=device),), refresh=refresh)
