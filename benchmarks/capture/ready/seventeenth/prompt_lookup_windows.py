"""Prompt-lookup decoding scores drafts found in the history: sound, device windows are compared with the tail."""
import torch

import graphsafe

DRAFTS = 3


class History:
    def __init__(self, device, tokens, room=160):
        self.host = bytearray(tokens)
        self.tokens = torch.zeros(room, dtype=torch.long, device=device)
        self.tokens[: len(tokens)] = torch.tensor(tokens, device=device)
        self.length = torch.full((1,), len(tokens), dtype=torch.long, device=device)

    def append(self, token):
        if len(self.host) < len(self.tokens):
            self.tokens[len(self.host)] = token
            self.host.append(token)
            self.length.add_(1)

    def drafts(self):
        places = torch.arange(len(self.tokens) - 1, device=self.tokens.device)
        ends = self.length - 2 + torch.arange(2, device=self.tokens.device)
        same = (self.tokens.unfold(0, 2, 1) == self.tokens.index_select(0, ends)).all(1)
        found = torch.where(same & (places < self.length - 2), places, -1).amax().view(1)
        wanted = found + 2 + torch.arange(DRAFTS, device=self.tokens.device)
        guess = self.tokens.index_select(0, wanted.clamp(max=len(self.tokens) - 1))
        return torch.where((found >= 0) & (wanted < self.length), guess, 0)


def build(device, vocabulary=12, dim=6):
    history = History(device, [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8])
    table = torch.randn(vocabulary, dim, device=device)

    def step(hidden):
        drafts = table.index_select(0, history.drafts())
        return torch.log_softmax(drafts @ hidden, 0)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(dim))
        history.append((k * k + 3 * k) % 11)

    return graphsafe.Step(step, (torch.randn(dim, device=device),), refresh=refresh)
