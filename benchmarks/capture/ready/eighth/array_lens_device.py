"""Mean pooling of packed sentences. The wire's lengths are for the log; the device has a mask of its own."""
from array import array

import torch
from torch import nn

import graphsafe


class Pooler(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.proj = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
        self.tokens_seen = 0

    def forward(self, x, lengths, lengths_device):
        self.tokens_seen += sum(lengths)
        h = torch.tanh(self.proj(x))
        position = torch.arange(x.shape[1], device=x.device)
        mask = (position[None, :] < lengths_device[:, None]).to(h.dtype)
        return self.norm((h * mask[..., None]).sum(1) / lengths_device[:, None])


def build(device, batch=4, tokens=16, width=24):
    model = Pooler(width).to(device).eval().requires_grad_(False)
    x = torch.randn(batch, tokens, width).to(device)
    lengths = array("i", [5, 9, 12, 16])
    on_device = torch.tensor(lengths, device=device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(args[0].shape))
        for i in range(len(args[1])):
            args[1][i] = 1 + (3 * k + 5 * i) % 16
        args[2].copy_(torch.tensor(list(args[1])))

    return graphsafe.Step(model, (x, lengths, on_device), refresh=refresh)
