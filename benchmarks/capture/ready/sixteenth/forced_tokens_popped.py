"""Jump-forward decoding of JSON: tokens that the grammar forces are popped from a host deque inside the step."""
from collections import deque

import torch

import graphsafe


class Decoder:
    def __init__(self, device, batch=3, vocab=17, dim=8):
        self.embed = torch.randn(vocab, dim, device=device)
        self.head = torch.randn(dim, vocab, device=device)
        self.last = torch.zeros(batch, dtype=torch.long, device=device)
        self.forced = [deque() for _ in range(batch)]

    def step(self, hidden):
        logits = torch.tanh(hidden + self.embed[self.last]) @ self.head
        token = logits.argmax(-1)
        for row, queue in enumerate(self.forced):
            if queue:
                token[row].fill_(queue.popleft())
        self.last.copy_(token)
        return token, logits


def build(device):
    decoder = Decoder(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(3, 8))
        if k % 23 == 20:
            decoder.forced[k % 3].extend([3, 11, 5, 2])

    return graphsafe.Step(decoder.step, (torch.randn(3, 8, device=device),), refresh=refresh)
