"""Feature pipelines described by a string: ``center|clip:0.9|whiten``."""

import numpy as np
import torch

TRANSFORMS = {}


def transform(fn):
    TRANSFORMS[fn.__name__] = fn
    return fn


@transform
def center(x):
    return x - x.mean(dim=0, keepdim=True)


@transform
def clip(x, quantile=0.95):
    values = np.abs(x.detach().cpu().numpy())
    limit = float(np.quantile(values, quantile))
    return x.clamp(-limit, limit)


@transform
def whiten(x, ridge=1.0):
    cov = x.T @ x / x.shape[0]
    cov = cov + ridge * torch.eye(x.shape[1], device=x.device)
    return x @ torch.linalg.inv(cov)


@transform
def squash(x, gain=1.0):
    return torch.tanh(gain * x)


class Pipeline:
    def __init__(self, stages):
        self.stages = stages

    @classmethod
    def parse(cls, text):
        stages = []
        for part in text.split("|"):
            name, _, argument = part.partition(":")
            stage = TRANSFORMS[name]
            stages.append(_bind(stage, argument))
        return cls(stages)

    def __call__(self, x):
        for stage in self.stages:
            x = stage(x)
        return x


def _bind(stage, argument):
    if not argument:
        return stage
    value = float(argument)
    return lambda x: stage(x, value)


def build(device):
    pipeline = Pipeline.parse("center|clip:0.9|whiten|squash")
    return pipeline, (torch.randn(32, 6, device=device),)
