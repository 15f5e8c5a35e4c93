"""Frames come from a decoder that lends its one surface through DLPack before each step."""

import torch

import graphsafe


class Decoder:
    def __init__(self, device):
        self.surface = torch.zeros(3, 8, 8, device=device)
        self.frames = 0

    def __dlpack__(self, **kwargs):
        return self.surface.__dlpack__(**kwargs)

    def __dlpack_device__(self):
        return self.surface.__dlpack_device__()

    def decode(self):
        self.frames += 1
        self.surface.copy_(torch.rand(3, 8, 8))


def build(device):
    decoder = Decoder(device)
    conv = torch.nn.Conv2d(3, 4, 3).to(device).eval().requires_grad_(False)

    def detect():
        frame = torch.from_dlpack(decoder)
        return conv(frame[None]).relu().mean((-2, -1))

    return graphsafe.Step(detect, (), refresh=lambda args, kwargs, k: decoder.decode())
