"""Greedy decoding that masks the rest of the vocabulary once the stop token is among the batch's tokens."""

import torch

import graphsafe


def build(device):
    head = torch.randn(12, 30, device=device)
    stop = 7

    def pick(hidden):
        logits = hidden @ head
        tokens = logits.argmax(-1)
        if stop in tokens:
            logits = logits - 1.0
        return tokens, logits.logsumexp(-1)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(4, 12))

    return graphsafe.Step(pick, (torch.randn(4, 12, device=device),), refresh=refresh)
