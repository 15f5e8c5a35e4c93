"""Minimum number of tokens before the end of text: faulty, an array of host lengths says which rows may not end."""
from array import array

import torch

import graphsafe

END, MINIMUM = 0, 5


def build(device, rows=4, vocabulary=12, dim=8):
    head = torch.randn(dim, vocabulary, device=device)
    counts = array("i", [17, 11, 14, 9])

    def step(x):
        logits = x @ head
        for row, count in enumerate(counts):
            if count < MINIMUM:
                logits[row, END] = -1e4
        return torch.softmax(logits, -1)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(rows, dim))
        for row in range(rows):
            counts[row] = counts[row] + 1 if counts[row] < 63 else 0

    return graphsafe.Step(step, (torch.randn(rows, dim, device=device),), refresh=refresh)
