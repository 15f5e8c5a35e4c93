"""Codecs are chosen by singledispatch; a plug-in that loads later registers a better one."""
import functools

import torch

import graphsafe


class Frame:
    pass


class Voiced(Frame):
    pass


@functools.singledispatch
def excite(kind, x):
    return x


def build(device):
    taps = torch.randn(16, 16).to(device) / 4
    kind = Voiced()

    def step(x):
        return excite(kind, x @ taps).tanh()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(4, 16))
        if k == 105:
            excite.register(Voiced, lambda kind, x: x + x.roll(1, -1))

    return graphsafe.Step(step, (torch.randn(4, 16, device=device),), refresh=refresh)
