"""A vocoder takes an output buffer from its pool if nobody else holds it any more."""

import sys

import torch

import graphsafe


class Pool:
    def __init__(self, n, size, device):
        self.buffers = [torch.zeros(size, device=device) for _ in range(n)]

    def take(self):
        for i in range(len(self.buffers)):
            if sys.getrefcount(self.buffers[i]) <= 2:  # the list and the argument
                return self.buffers[i]
        raise RuntimeError("all buffers are in use")


def build(device):
    pool = Pool(3, (4, 32), device)
    synth = torch.randn(16, 32, device=device) / 4
    listeners = []

    def vocode(mel, tail):
        out = pool.take()
        torch.mm(mel, synth, out=out)
        out.add_(tail, alpha=0.5)
        return out * 1.0

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(4, 16))
        if k % 24 == 20:  # a listener keeps the newest chunk, the first buffer, for a while
            listeners.append(pool.buffers[0])
        elif k % 24 == 23 and listeners:
            args[1].copy_(listeners.pop())

    args = (torch.randn(4, 16, device=device), torch.zeros(4, 32, device=device))
    return graphsafe.Step(vocode, args, refresh=refresh)
