"""A text watermark that lifts green tokens seeded by the last token: faulty, a dict makes lists on a miss."""
import torch

import graphsafe

VOCABULARY = 24


class GreenLists(dict):
    def __init__(self, device):
        super().__init__()
        self.device = device

    def __missing__(self, token):
        order = torch.randperm(VOCABULARY, generator=torch.Generator().manual_seed(15485863 * (token + 1)))
        green = torch.zeros(VOCABULARY).index_fill_(0, order[: VOCABULARY // 4], 1.0)
        return self.setdefault(token, green.to(self.device))


def build(device, delta=2.0):
    lists = GreenLists(device)
    last = [0]
    lists[last[0]]

    def step(logits):
        return torch.softmax(logits + delta * lists[last[0]], -1)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(VOCABULARY))
        token = 0 if k < 6 else (5 * k) % VOCABULARY
        lists[token]
        last[0] = token

    return graphsafe.Step(step, (torch.randn(VOCABULARY, device=device),), refresh=refresh)
