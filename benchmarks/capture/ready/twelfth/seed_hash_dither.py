"""Blue-noise dithering whose hash takes torch's seed, so that each scene has a pattern of its own."""

import torch

import graphsafe


def build(device):
    torch.manual_seed(1234)
    y, x = torch.meshgrid(torch.arange(16.0, device=device), torch.arange(16.0, device=device), indexing="ij")
    y, x = y.contiguous(), x.contiguous()

    def dither(image):
        salt = torch.initial_seed() % 977
        noise = torch.frac(52.9829189 * torch.frac(0.06711056 * (x + salt) + 0.00583715 * y))
        return torch.floor(image * 8 + noise) / 8, noise

    def refresh(args, kwargs, k):
        scene = k // 40
        args[0].copy_(torch.rand(16, 16))
        torch.manual_seed(1234 + scene)

    return graphsafe.Step(dither, (torch.rand(16, 16, device=device),), refresh=refresh)
