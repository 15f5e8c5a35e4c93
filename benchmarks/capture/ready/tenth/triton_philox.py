"""Dropout as a fused Triton kernel, which is seeded by the number of the micro-batch."""
import torch
import triton
import triton.language as tl
from torch import nn

import graphsafe


@triton.jit
def drop_add_kernel(x, residual, out, n, p, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    value = tl.load(x + at, mask=mask, other=0.0)
    keep = tl.rand(seed, at) > p
    value = tl.where(keep, value / (1.0 - p), 0.0)
    tl.store(out + at, value + tl.load(residual + at, mask=mask, other=0.0), mask=mask)


class DropBlock(nn.Module):
    def __init__(self, width, p, device):
        super().__init__()
        self.linear = nn.Linear(width, width).to(device)
        self.p = p
        self.seed = 1234

    def reseed(self, epoch):
        self.seed = 1234 + 7919 * epoch

    def forward(self, x):
        hidden = torch.relu(self.linear(x))
        out = torch.empty_like(x)
        grid = (triton.cdiv(x.numel(), 128),)
        drop_add_kernel[grid](hidden, x, out, x.numel(), self.p, self.seed, BLOCK=128)
        return out


def build(device, batch=8, width=32):
    model = DropBlock(width, 0.25, device).requires_grad_(False)
    x = torch.randn(batch, width).to(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(batch, width))
        model.reseed(k // 25)  # the same masks within an epoch of 25 batches, to compare runs

    return graphsafe.Step(model, (x,), refresh=refresh)
