"""Latent attention under weight syncs of a trainer: the absorbed projection is a buffer, written again at a sync."""
import torch

import graphsafe


class LatentAttention(torch.nn.Module):
    def __init__(self, heads=2, dim=8, latent=4):
        super().__init__()
        self.up_query = torch.nn.Parameter(torch.randn(heads, dim, dim) / dim**0.5, requires_grad=False)
        self.up_key = torch.nn.Parameter(torch.randn(heads, dim, latent) / dim**0.5, requires_grad=False)
        self.register_buffer("cache", torch.randn(12, latent))
        self.register_buffer("absorbed", torch.matmul(self.up_query, self.up_key))

    def forward(self, hidden):
        queries = torch.einsum("td,hdl->htl", hidden, self.absorbed)
        weights = torch.softmax(queries @ self.cache.t(), -1)
        return (weights @ self.cache).flatten(0, 1)

    def sync(self, weights):
        for name, value in weights.items():
            getattr(self, name).copy_(value)
        torch.matmul(self.up_query, self.up_key, out=self.absorbed)


def build(device):
    attention = LatentAttention().to(device)

    def refresh(args, kwargs, k):
        if k % 20 == 18:
            attention.sync({"up_key": torch.randn(2, 8, 4) / 3})
        args[0].copy_(torch.randn(3, 8))

    return graphsafe.Step(attention, (torch.randn(3, 8, device=device),), refresh=refresh)
