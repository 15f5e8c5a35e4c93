"""Adaptive projected guidance with momentum: faulty, each step binds the running difference to a new tensor."""
import torch

import graphsafe


class MomentumBuffer:
    def __init__(self, momentum, like):
        self.momentum = momentum
        self.running = torch.zeros_like(like)

    def update(self, value):
        self.running = value + self.momentum * self.running
        return self.running

    def clear(self):
        self.running.zero_()


def build(device, dim=8, scale=4.0):
    denoise = torch.randn(2, dim, dim, device=device) / dim**0.5
    buffer = MomentumBuffer(-0.7, torch.empty(2, dim, device=device))

    def step(latent):
        with_text, without = torch.tanh(latent @ denoise[0]), torch.tanh(latent @ denoise[1])
        difference = buffer.update(with_text - without)
        unit = torch.nn.functional.normalize(with_text, dim=-1)
        parallel = (difference * unit).sum(-1, keepdim=True) * unit
        return latent - 0.1 * (with_text + (scale - 1) * (difference - parallel))

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(2, dim))
        if k % 25 == 24:
            buffer.clear()

    return graphsafe.Step(step, (torch.randn(2, dim, device=device),), refresh=refresh)
