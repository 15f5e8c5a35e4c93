"""Token healing at the start of a request: faulty, the prefix mask is applied only if a weak set is not empty."""
import weakref

import torch

import graphsafe


class Request:
    def __init__(self, prefix):
        self.prefix = prefix


def build(device, vocabulary=24, dim=8):
    head = torch.randn(dim, vocabulary, device=device)
    allowed = torch.ones(vocabulary, dtype=torch.bool, device=device)
    healing = weakref.WeakSet()
    running = []

    def step(x):
        logits = x @ head
        if len(healing):
            logits = logits.masked_fill(~allowed, -1e4)
        return torch.softmax(logits, -1)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(3, dim))
        running.clear()
        if k % 18 == 17:
            running.append(Request(prefix=k % 6))
            healing.add(running[0])
        allowed.fill_(not len(healing))
        for request in healing:
            allowed[request.prefix :: 6] = True

    return graphsafe.Step(step, (torch.randn(3, dim, device=device),), refresh=refresh)
