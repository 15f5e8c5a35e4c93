"""Logits processor with biases in a dense table, whose rows are cleared and filled as requests join and leave."""
import torch

import graphsafe


class LogitBias:
    def __init__(self, device, rows, vocab):
        self.table = torch.zeros(rows, vocab, device=device)
        self.biases = {}
        self.update_state([(0, {3: 4.0, 5: -2.0}), (2, {1: 3.0, 7: 1.0})])

    def update_state(self, added=(), removed=()):
        for row in removed:
            self.biases.pop(row, None)
            self.table[row].zero_()
        for row, bias in added:
            self.biases[row] = bias
            dense = torch.zeros(self.table.shape[1])
            for token, value in bias.items():
                dense[token] = value
            self.table[row].copy_(dense)

    def is_argmax_invariant(self):
        return not self.biases

    def apply(self, logits):
        return logits + self.table


class Head:
    def __init__(self, device, dim=8, vocab=12):
        self.weight = torch.randn(dim, vocab, device=device)
        self.processor = LogitBias(device, 4, vocab)

    def step(self, hidden):
        logits = self.processor.apply(hidden @ self.weight)
        if self.processor.is_argmax_invariant():
            logits = logits + 0.0
        return torch.log_softmax(logits, -1)


def build(device):
    head = Head(device)

    def refresh(args, kwargs, k):
        if k % 15 == 14:
            row = k // 15 % 4
            head.processor.update_state([(row, {2: 5.0, 9: -3.0})], [(row + 2) % 4])
        if k == 170:
            head.processor.update_state(removed=range(4))
        args[0].copy_(torch.randn(4, 8))

    return graphsafe.Step(head.step, (torch.randn(4, 8, device=device),), refresh=refresh)
