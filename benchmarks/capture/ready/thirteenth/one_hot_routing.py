"""Expert-choice routing: a one-hot mask and sorted ranks as inputs from an upstream router, experts as one batched product."""
import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe

TOKENS, EXPERTS, CAPACITY, WIDTH = 40, 4, 16, 24


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Parameter(torch.randn(EXPERTS, WIDTH, 64) / 5)
        self.gate = nn.Parameter(torch.randn(EXPERTS, WIDTH, 64) / 5)
        self.down = nn.Parameter(torch.randn(EXPERTS, 64, WIDTH) / 8)

    def forward(self, x, one_hot, scale):
        place = one_hot.long().cumsum(0) - 1
        kept = one_hot & (place < CAPACITY)
        slots = F.one_hot(place.clamp(0, CAPACITY - 1), CAPACITY) * kept[..., None]
        dispatch = slots.to(x.dtype)
        inputs = torch.einsum("tec,tw->ecw", dispatch, x)
        hidden = F.silu(torch.bmm(inputs, self.gate)) * torch.bmm(inputs, self.up)
        outputs = torch.bmm(hidden, self.down)
        mixed = torch.einsum("tec,ecw->tw", dispatch, outputs) * scale[:, None]
        return torch.where(kept.any(-1, keepdim=True), mixed, x), kept.sum(0), (one_hot & ~kept).sum()


def build(device):
    experts = Experts().to(device).eval().requires_grad_(False)
    x = torch.randn(TOKENS, WIDTH, device=device)
    one_hot = F.one_hot(torch.randint(EXPERTS, (TOKENS,)), EXPERTS).bool().to(device)
    scale = torch.rand(TOKENS, device=device)
    return experts, (x, one_hot, scale)
