"""Signal compressor whose knobs are keyword defaults, so that a session can tune them for all callers."""

import torch

import graphsafe


def compress(x, *, threshold=0.5, ratio=4.0, makeup=1.1):
    level = x.abs()
    over = (level - threshold).clamp(min=0)
    return torch.sign(x) * (level - over + over / ratio) * makeup


def tune(**knobs):
    compress.__kwdefaults__ = {**compress.__kwdefaults__, **knobs}


def build(device):
    taps = torch.hann_window(9, device=device)

    def step(frame):
        smooth = torch.nn.functional.conv1d(frame[:, None], taps.view(1, 1, -1) / taps.sum(), padding=4)[:, 0]
        return compress(smooth)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(2, 64))
        if k == 112:
            tune(ratio=10.0)

    return graphsafe.Step(step, (torch.randn(2, 64, device=device),), refresh=refresh)
