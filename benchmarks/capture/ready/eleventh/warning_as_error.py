"""A deprecation warning marks the old path; strict mode turns it into an error and the new path is taken."""
import warnings

import torch

import graphsafe


def old_norm(x):
    warnings.warn("old_norm is going away", DeprecationWarning, stacklevel=2)
    return x / (x.std(-1, keepdim=True) + 1e-3)


def new_norm(x):
    return x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt()


def build(device):
    gain = torch.rand(16).to(device) + 0.5

    def step(x):
        try:
            y = old_norm(x)
        except DeprecationWarning:
            y = new_norm(x)
        return y * gain

    def strict():
        warnings.simplefilter("error", DeprecationWarning)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(8, 16) + 1)

    return graphsafe.Step(step, (torch.randn(8, 16, device=device),), refresh=refresh, events={"strict mode": strict})
