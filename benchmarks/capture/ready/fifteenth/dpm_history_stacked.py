"""Multistep solver whose history is one buffer, shifted in place, and whose tables are read at a device index."""
import torch

import graphsafe


class MultistepScheduler:
    def __init__(self, device, steps=20, shape=(3, 12)):
        t = torch.linspace(0.98, 0.02, steps + 1, dtype=torch.float64)
        alpha, sigma = torch.cos(t * 1.5), torch.sin(t * 1.5)
        ratio = sigma[1:] / sigma[:-1]
        second = torch.full((steps,), 0.5, dtype=torch.float64)
        second[0] = 0
        self.table = torch.stack([ratio, alpha[1:] - ratio * alpha[:-1], second], 1).float().to(device)
        self.index = torch.zeros(1, dtype=torch.long, device=device)
        self.history = torch.zeros(2, *shape, device=device)
        self.lower_order_nums = 0

    def begin(self):
        self.index.zero_()
        self.lower_order_nums = 0

    def step(self, output, sample):
        self.history[0].copy_(self.history[1])
        self.history[1].copy_(output)
        ratio, gain, second = self.table.index_select(0, self.index)[0].unbind()
        self.index.add_(1).remainder_(len(self.table))
        self.lower_order_nums = min(self.lower_order_nums + 1, 2)
        return ratio * sample + gain * (output + second * (output - self.history[0]))


class Denoiser:
    def __init__(self, device, dim=12):
        self.scheduler = MultistepScheduler(device)
        self.weight = torch.randn(dim, dim, device=device) / dim**0.5
        self.sample = torch.randn(3, dim, device=device)

    def step(self, prompt):
        output = torch.tanh(self.sample @ self.weight + prompt)
        self.sample.copy_(self.scheduler.step(output, self.sample))
        return self.sample.clone()


def build(device):
    denoiser = Denoiser(device)

    def refresh(args, kwargs, k):
        if k % 20 == 0:
            denoiser.scheduler.begin()
            denoiser.sample.copy_(torch.randn(3, 12))
            args[0].copy_(torch.randn(3, 12))

    return graphsafe.Step(denoiser.step, (torch.randn(3, 12, device=device),), refresh=refresh)
