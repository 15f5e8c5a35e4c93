"""Flash-decoding with chunks of the cache: plan() works out how many chunks of sixteen keys the batch needs."""
import torch

import graphsafe


class DecodeWrapper:
    CHUNK = 16

    def __init__(self, device, batch, longest, dim):
        self.keys = torch.randn(batch, longest, dim, device=device)
        self.lens = torch.zeros(batch, dtype=torch.long, device=device)
        self.positions = torch.arange(longest, device=device)
        self.num_chunks = 0

    def plan(self, lens):
        self.lens.copy_(torch.tensor(lens))
        self.num_chunks = -(-max(lens) // self.CHUNK)

    def run(self, query):
        parts, sums = [], []
        for chunk in range(self.num_chunks):
            span = slice(chunk * self.CHUNK, (chunk + 1) * self.CHUNK)
            keys = self.keys[:, span]
            scores = (keys @ query.unsqueeze(-1)).squeeze(-1) / 4
            dead = self.positions[span] >= self.lens.unsqueeze(1)
            weights = torch.exp(scores.masked_fill(dead, -1e4))
            parts.append((weights.unsqueeze(1) @ keys).squeeze(1))
            sums.append(weights.sum(-1, keepdim=True))
        return torch.stack(parts).sum(0) / torch.stack(sums).sum(0)


def build(device, batch=3, dim=8):
    wrapper = DecodeWrapper(device, batch, 96, dim)
    lens = [20, 11, 33]
    wrapper.plan(lens)

    def step(query):
        return query + wrapper.run(query)

    def refresh(args, kwargs, k):
        now = [n + k % 15 for n in lens]
        if k >= 100 and k % 20 == 0:
            now[1] = 70
        wrapper.plan(now)
        args[0].copy_(torch.randn(batch, dim))

    return graphsafe.Step(step, (torch.randn(batch, dim, device=device),), refresh=refresh)
