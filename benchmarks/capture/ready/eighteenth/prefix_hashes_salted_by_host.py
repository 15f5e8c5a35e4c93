"""A prefix cache keeps hashes of its blocks on the device: faulty, their salt is a number that a reset changes."""
import torch
from torch import nn

import graphsafe

PRIME = 1_099_511_628_211


class Blocks(nn.Module):
    def __init__(self, words=100, dim=8, blocks=32):
        super().__init__()
        self.embed = nn.Embedding(words, dim)
        self.register_buffer("hashes", torch.full((blocks,), 14_695_981_039_346_656 << 8))
        self.salt = 7_919 << 32

    def forward(self, tokens, block):
        powers = torch.arange(1, tokens.numel() + 1, device=tokens.device) * PRIME
        self.hashes.index_copy_(0, block, ((tokens + 1) * powers).sum(0, keepdim=True) ^ self.salt)
        return self.embed(tokens).mean(0)


def build(device):
    blocks = Blocks().to(device).requires_grad_(False)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randint(0, 100, (16,)))
        args[1].fill_(k % 32)
        if k == 70:
            blocks.salt = 104_729 << 32

    args = (torch.randint(0, 100, (16,)).to(device), torch.zeros(1, dtype=torch.long, device=device))
    return graphsafe.Step(blocks, args, refresh=refresh)
