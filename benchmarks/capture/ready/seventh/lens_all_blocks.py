"""Paged decode attention: lengths live on the host too, and all blocks are always read."""
import torch

import graphsafe

BLOCK = 16


class PagedAttention:
    def __init__(self, device, batch=3, heads=2, dim=8, blocks=12):
        torch.manual_seed(2)
        self.k = torch.randn(batch, blocks * BLOCK, heads, dim, device=device)
        self.v = torch.randn(batch, blocks * BLOCK, heads, dim, device=device)
        pin = torch.cuda.is_available()
        self.lens_host = torch.tensor([5, 3, 7], dtype=torch.int32, pin_memory=pin)
        self.lens = torch.zeros(batch, dtype=torch.int32, device=device)

    @property
    def used_blocks(self):  # for the dashboard
        return (int(self.lens_host.max()) + BLOCK - 1) // BLOCK

    def forward(self, q):
        self.lens.copy_(self.lens_host, non_blocking=True)
        span = self.k.shape[1]
        k, v = self.k[:, :span], self.v[:, :span]
        scores = torch.einsum("bhd,bshd->bhs", q, k)
        inside = torch.arange(span, device=q.device) < self.lens[:, None, None]
        return torch.einsum("bhs,bshd->bhd", scores.masked_fill(~inside, float("-inf")).softmax(-1), v)


def build(device):
    attention = PagedAttention(device)
    q = torch.randn(3, 2, 8, device=device)

    def refresh(args, kwargs, k):  # one token more in every request from time to time
        torch.cuda.synchronize()  # the last step has read the pinned lengths
        args[0].copy_(torch.randn(3, 2, 8))
        attention.lens_host.copy_(torch.tensor([5, 3, 7]) + k // 2)

    return graphsafe.Step(attention.forward, (q,), refresh=refresh)
