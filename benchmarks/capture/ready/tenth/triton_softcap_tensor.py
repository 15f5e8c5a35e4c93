"""Attention logits are capped by a Triton kernel; the serving profile writes how hard to the device."""
import torch
import triton
import triton.language as tl
from torch import nn

import graphsafe


@triton.jit
def softcap_kernel(x, out, n, cap, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    cap = tl.load(cap)
    value = tl.load(x + at, mask=at < n, other=0.0)
    squashed = 2.0 / (1.0 + tl.exp(-2.0 * value / cap)) - 1.0  # tanh
    tl.store(out + at, cap * squashed, mask=at < n)


def softcap(x, cap):
    out = torch.empty_like(x)
    softcap_kernel[(triton.cdiv(x.numel(), 256),)](x, out, x.numel(), cap, BLOCK=256)
    return out


class CappedAttention(nn.Module):
    def __init__(self, width, context, device):
        super().__init__()
        self.query = nn.Linear(width, width).to(device)
        self.keys = nn.Parameter(torch.randn(context, width).to(device))
        self.cap = torch.full((1,), 5.0, device=device)

    def forward(self, x):
        scores = softcap(self.query(x) @ self.keys.t(), self.cap)
        return torch.softmax(scores, dim=-1) @ self.keys


def build(device, batch=4, width=32, context=48):
    model = CappedAttention(width, context, device).eval().requires_grad_(False)
    x = torch.randn(batch, width).to(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(batch, width))
        if k % 17 == 16:
            model.cap.fill_(2.5 if k // 17 % 2 == 0 else 5.0)  # the other profile

    return graphsafe.Step(model, (x,), refresh=refresh)
