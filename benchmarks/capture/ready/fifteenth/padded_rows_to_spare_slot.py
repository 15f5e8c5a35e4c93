"""Decode batch padded to its bucket: padding rows write into a spare slot, and new metadata views the same buffers."""
import torch

import graphsafe


class Metadata:
    def __init__(self, num_actual_tokens, slots, mask):
        self.num_actual_tokens, self.slots, self.mask = num_actual_tokens, slots, mask


class Attention:
    def __init__(self, device, slots=32, dim=8):
        self.k = torch.randn(dim, dim, device=device) / 3
        self.cache = torch.zeros(slots + 8, dim, device=device)
        self.slots = slots

    def forward(self, hidden, metadata, out):
        self.cache.index_copy_(0, metadata.slots, hidden @ self.k)
        live = self.cache[: self.slots]
        out.copy_(torch.softmax(hidden @ live.T / 3, -1) @ live)
        return out * metadata.mask


class Runner:
    def __init__(self, device, bucket=8):
        self.bucket = bucket
        self.attention = Attention(device)
        self.slots = torch.arange(bucket, device=device)
        self.mask = torch.ones(bucket, 1, device=device)
        self.out = torch.zeros(bucket, 8, device=device)
        self.metadata = Metadata(bucket, self.slots[:bucket], self.mask[:bucket])

    def prepare(self, k):
        live = self.bucket if k < 70 or k % 7 else 5
        self.slots.copy_(32 + torch.arange(self.bucket))
        self.slots[:live].copy_(torch.randperm(32)[:live])
        self.mask.fill_(0.0)[:live].fill_(1.0)
        self.metadata = Metadata(live, self.slots[: self.bucket], self.mask[: self.bucket])
        return live

    def step(self, hidden):
        return hidden * self.metadata.mask + self.attention.forward(hidden, self.metadata, self.out)


def build(device):
    runner = Runner(device)

    def refresh(args, kwargs, k):
        live = runner.prepare(k)
        args[0][:live].copy_(torch.randn(live, 8))

    return graphsafe.Step(runner.step, (torch.randn(8, 8, device=device),), refresh=refresh)
