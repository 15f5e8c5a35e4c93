"""Prompt-lookup decoding scores drafts found in the history: faulty, the history is searched as a bytearray."""
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
        found = self.host.rfind(self.host[-2:], 0, len(self.host) - 1)
        guess = self.host[found + 2 : found + 2 + DRAFTS] if found >= 0 else b""
        return [*guess, *[0] * (DRAFTS - len(guess))]


def build(device, vocabulary=12, dim=6):
    history = History(device, [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8])
    table = torch.randn(vocabulary, dim, device=device)

    def step(hidden):
        drafts = torch.stack([table[token] for token in history.drafts()])
        return torch.log_softmax(drafts @ hidden, 0)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(dim))
        history.append((k * k + 3 * k) % 11)

    return graphsafe.Step(step, (torch.randn(dim, device=device),), refresh=refresh)
