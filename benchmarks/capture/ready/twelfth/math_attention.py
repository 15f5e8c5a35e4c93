"""Attention under a context that chooses its backend, entered and left in each step."""

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

import graphsafe


def build(device):
    proj = torch.nn.Linear(32, 96).to(device).requires_grad_(False)
    bias = torch.zeros(4, 10, 10, device=device)

    def attend(x):
        q, k, v = (t.unflatten(-1, (4, 8)).transpose(1, 2) for t in proj(x).chunk(3, -1))
        with sdpa_kernel([SDPBackend.MATH]):
            out = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        return out.transpose(1, 2).flatten(2)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(2, 10, 32))
        slope = 0.1 * (1 + k % 4)
        i = torch.arange(10.0)
        bias.copy_((-slope * (i[:, None] - i[None]).abs()).expand(4, 10, 10))

    return graphsafe.Step(attend, (torch.randn(2, 10, 32, device=device),), refresh=refresh)
