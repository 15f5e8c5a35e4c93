"""Frames come from a decoder that lends them through DLPack; it owns two buffers and takes turns."""

import torch

import graphsafe


class Decoder:
    """Stands for a video decoder with its own surfaces."""

    def __init__(self, device):
        self.surfaces = [torch.zeros(3, 8, 8, device=device) for _ in range(2)]
        self.turn = 0

    def __dlpack__(self, **kwargs):
        return self.surfaces[self.turn].__dlpack__(**kwargs)

    def __dlpack_device__(self):
        return self.surfaces[self.turn].__dlpack_device__()

    def decode(self, k):
        if k >= 50:  # before, the stream is read without look-ahead
            self.turn = 1 - self.turn
        self.surfaces[self.turn].copy_(torch.rand(3, 8, 8))


def build(device):
    decoder = Decoder(device)
    conv = torch.nn.Conv2d(3, 4, 3).to(device).eval().requires_grad_(False)

    def detect():
        frame = torch.from_dlpack(decoder)
        return conv(frame[None]).relu().mean((-2, -1))

    return graphsafe.Step(detect, (), refresh=lambda args, kwargs, k: decoder.decode(k))
