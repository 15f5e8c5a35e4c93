"""Default arguments that change with every call: a list, a dictionary and a memo, none of which decides anything."""
import time

import torch

import graphsafe


def equalise(x, bands, calls=[], seconds={}, made={}):
    calls.append(len(calls))
    if len(calls) > 100:
        del calls[:50]
    begin = time.perf_counter()
    if x.shape not in made:
        made[x.shape] = torch.linspace(0.5, 1, x.shape[-1] // 2 + 1, device=x.device)
    spectrum = torch.fft.rfft(x) * bands * made[x.shape]
    seconds[len(calls) % 7] = time.perf_counter() - begin
    return torch.fft.irfft(spectrum, n=x.shape[-1])


def build(device):
    bands = torch.rand(33, device=device) + 0.5

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(2, 64) * (1 + k % 5))
        if k % 30 == 0:
            args[1].copy_(torch.rand(33) + 0.5)
            equalise.__defaults__[1].clear()

    return graphsafe.Step(equalise, (torch.randn(2, 64, device=device), bands), refresh=refresh)
