"""A sampler takes its generator from its caller, and the caller passes the device's default one."""

import torch

import graphsafe


class Sampler:
    def __init__(self, generator):
        self.generator = generator

    def __call__(self, logits):
        noise = torch.empty_like(logits).exponential_(generator=self.generator)
        token = (logits.softmax(-1) / noise).argmax(-1)
        keep = torch.rand(token.shape, generator=self.generator, device=logits.device) < 0.9
        return torch.where(keep, token, logits.argmax(-1))


def build(device):
    if device.type == "cuda":
        torch.cuda.init()
        generator = torch.cuda.default_generators[device.index or 0]
    else:
        generator = torch.default_generator
    sampler = Sampler(generator)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(6, 40) * 2)

    return graphsafe.Step(sampler, (torch.randn(6, 40, device=device),), refresh=refresh)
