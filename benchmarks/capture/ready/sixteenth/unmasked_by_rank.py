"""A diffusion language model: each step unmasks tokens whose rank of confidence is below a device number."""
import torch

import graphsafe

MASK = 15


class BlockDecoder:
    def __init__(self, device, batch=2, block=8, dim=8):
        self.embed = torch.randn(MASK + 1, dim, device=device)
        self.mix = torch.randn(block, block, device=device) / block**0.5
        self.head = torch.randn(dim, MASK, device=device)
        self.tokens = torch.full((batch, block), MASK, device=device)
        self.number = torch.full((), 2, device=device)
        self.plan = [2, 2, 2, 2]

    def step(self, context):
        hidden = torch.tanh(self.mix @ self.embed[self.tokens] + context)
        best, guess = torch.softmax(hidden @ self.head, -1).max(-1)
        confidence = torch.where(self.tokens == MASK, best, -1.0)
        rank = confidence.argsort(dim=-1, descending=True, stable=True).argsort(-1)
        keep = rank < self.number
        self.tokens.copy_(torch.where(keep & (self.tokens == MASK), guess, self.tokens))
        return self.tokens.clone(), best

    def schedule(self, fast):
        if not self.plan:
            self.plan = [4, 4] if fast else [2, 2, 2, 2]
            self.tokens.fill_(MASK)
        self.number.fill_(self.plan.pop(0))


def build(device):
    decoder = BlockDecoder(device)

    def refresh(args, kwargs, k):
        decoder.schedule(fast=k % 36 >= 24)
        args[0].copy_(torch.randn(2, 1, 8))

    return graphsafe.Step(decoder.step, (torch.randn(2, 1, 8, device=device),), refresh=refresh)
