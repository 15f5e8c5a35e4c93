"""Structured output with packed bitmasks: the step itself sends the matcher's NumPy words to the device."""
import numpy as np
import torch

import graphsafe


class Matcher:
    """A toy grammar: allowed tokens depend on the number of tokens so far; words are written through a memoryview."""

    def __init__(self, rows=2, vocab=70):
        self.words = np.full((rows, -(-vocab // 32)), -1, dtype=np.int32)
        self.bytes = memoryview(self.words).cast("B")
        self.count = 0

    def accept(self):
        self.count += 1
        for i in range(len(self.bytes)):
            self.bytes[i] = (self.count * 37 + i * 11) % 255 | 1


def build(device, vocab=70):
    matcher = Matcher()
    head = torch.randn(8, vocab, device=device)
    words = torch.from_numpy(matcher.words).to(device, copy=True)

    def step(hidden):
        packed = torch.from_numpy(matcher.words).to(hidden.device)
        tokens = torch.arange(vocab, device=hidden.device)
        allowed = (packed[:, tokens // 32] >> (tokens % 32)) & 1
        logits = (hidden @ head).masked_fill(allowed == 0, float("-inf"))
        return logits.argmax(-1), torch.softmax(logits, -1)

    def refresh(args, kwargs, k):
        matcher.accept()
        words.copy_(torch.from_numpy(matcher.words))
        args[0].copy_(torch.randn(2, 8))

    return graphsafe.Step(step, (torch.randn(2, 8, device=device),), refresh=refresh)
