"""Flash-decoding whose plan picks the number of splits; every split number covers all keys, so results agree."""
import torch

import graphsafe


class DecodeWrapper:
    def __init__(self, device, batch, longest, dim):
        self.keys = torch.randn(batch, longest, dim, device=device)
        self.lens = torch.zeros(batch, dtype=torch.long, device=device)
        self.positions = torch.arange(longest, device=device)
        self.splits = 1

    def plan(self, lens):
        self.lens.copy_(torch.tensor(lens))
        self.splits = 2 if max(lens) < 50 else 6

    def run(self, query):
        parts, maxima, sums = [], [], []
        size = self.keys.shape[1] // self.splits
        for split in range(self.splits):
            span = slice(split * size, (split + 1) * size)
            keys = self.keys[:, span]
            scores = (keys @ query.unsqueeze(-1)).squeeze(-1) / 4
            scores = scores.masked_fill(self.positions[span] >= self.lens.unsqueeze(1), -1e4)
            top = scores.amax(-1, keepdim=True)
            weights = torch.exp(scores - top)
            parts.append((weights.unsqueeze(1) @ keys).squeeze(1))
            maxima.append(top)
            sums.append(weights.sum(-1, keepdim=True))
        share = torch.exp(torch.stack(maxima) - torch.stack(maxima).amax(0))
        return (torch.stack(parts) * share).sum(0) / (torch.stack(sums) * share).sum(0)


def build(device, batch=3, dim=8):
    wrapper = DecodeWrapper(device, batch, 96, dim)
    lens = [20, 11, 33]
    wrapper.plan(lens)

    def step(query):
        return query + wrapper.run(query)

    def refresh(args, kwargs, k):
        now = [n + k % 15 for n in lens]
        if k % 20 == 17:
            now[1] = 70
        wrapper.plan(now)
        args[0].copy_(torch.randn(batch, dim))

    return graphsafe.Step(step, (torch.randn(batch, dim, device=device),), refresh=refresh)
