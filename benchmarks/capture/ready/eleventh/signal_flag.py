"""SIGUSR1 asks a running sampler to switch to its conservative guidance."""
import os
import signal

import torch

import graphsafe


class Sampler:
    def __init__(self, device):
        self.w = torch.randn(16, 16).to(device) / 4
        self.conservative = False
        signal.signal(signal.SIGUSR1, self.on_signal)

    def on_signal(self, number, frame):
        self.conservative = not self.conservative

    def __call__(self, x):
        eps = x @ self.w
        return x - (0.1 if self.conservative else 0.5) * eps


def build(device):
    sampler = Sampler(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(4, 16))
        if k == 120:  # the operator's kill -USR1
            os.kill(os.getpid(), signal.SIGUSR1)

    return graphsafe.Step(sampler, (torch.randn(4, 16, device=device),), refresh=refresh)
