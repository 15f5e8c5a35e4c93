"""Guided decoding: the mask of a grammar is staged on the host once the device has finished, and uploaded before sampling."""
import torch
from torch import nn

import graphsafe


class GuidedHead(nn.Module):
    def __init__(self, vocabulary, width, depth, device):
        super().__init__()
        self.mix = nn.Parameter((torch.randn(width, width) / width ** 0.5 * 0.8).to(device))
        self.head = nn.Linear(width, vocabulary).to(device)
        self.depth = depth
        self.staging = torch.zeros(vocabulary, pin_memory=device.type == "cuda")
        self.mask = torch.zeros(vocabulary, device=device)
        self.uploaded = torch.cuda.Event()

    def forward(self, token):
        hidden = token
        for _ in range(self.depth):
            hidden = torch.tanh(torch.addmm(token, hidden, self.mix))
        logits = self.head(hidden)
        self.mask.copy_(self.staging, non_blocking=True)
        if not torch.cuda.is_current_stream_capturing():
            self.uploaded.record()
        return torch.softmax(logits + self.mask, dim=-1)

    def stage(self, banned):
        torch.cuda.current_stream().synchronize()  # the last mask has left the staging buffer
        self.staging.zero_()
        self.staging[banned] = -1e4


def build(device, batch=4, vocabulary=64, width=64, depth=200):
    model = GuidedHead(vocabulary, width, depth, device).eval().requires_grad_(False)
    token = torch.randn(batch, width).to(device)

    def refresh(args, kwargs, k):
        model.stage(list(range(k % 5, vocabulary, 2 + k % 3)))
        args[0].normal_()

    return graphsafe.Step(model, (token,), refresh=refresh)
