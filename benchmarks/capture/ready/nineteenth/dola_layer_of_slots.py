"""DoLa, decoding by contrast of layers: faulty, the early layer is a host number in an object with slots."""
import torch

import graphsafe


class Contrast:
    __slots__ = ("divergences", "layer")

    def __init__(self, device, layers):
        self.divergences = torch.zeros(layers, device=device)
        self.layer = 0

    def choose(self):
        best = int(self.divergences.argmax())
        self.layer = best


def build(device, layers=4, dim=8, vocabulary=16):
    blocks = torch.randn(layers, dim, dim, device=device) * 0.6
    head = torch.randn(dim, vocabulary, device=device)
    contrast = Contrast(device, layers - 1)

    def step(x):
        hidden, logits = x, []
        for block in blocks:
            hidden = hidden + torch.tanh(hidden @ block)
            logits.append(torch.log_softmax(hidden @ head, -1))
        *early, final = logits
        distances = torch.stack([(final.exp() * (final - one)).sum(-1).mean() for one in early])
        contrast.divergences.lerp_(distances, 0.3)
        return final - early[contrast.layer]

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(2, dim) * (1.0 + k % 5))
        if k % 12 == 11:
            contrast.choose()
            contrast.divergences[int(contrast.divergences.argmax())] = 0

    return graphsafe.Step(step, (torch.randn(2, dim, device=device),), refresh=refresh)
