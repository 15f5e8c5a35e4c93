"""Feature pipelines by name, fitted before they are used."""

import numpy as np
import torch

STAGES = {}


class Stage:
    def __init_subclass__(cls, name=None, **kwargs):
        super().__init_subclass__(**kwargs)
        if name:
            STAGES[name] = cls

    def fit(self, x):
        return self

    def __call__(self, x):
        raise NotImplementedError


class Center(Stage, name="center"):
    def fit(self, x):
        self.mean = x.mean(dim=0, keepdim=True)
        return self

    def __call__(self, x):
        return x - self.mean


class Clip(Stage, name="clip"):
    def __init__(self, quantile=0.95):
        self.quantile = quantile

    def fit(self, x):
        values = np.abs(x.detach().cpu().numpy())
        self.limit = float(np.quantile(values, self.quantile))
        return self

    def __call__(self, x):
        return x.clamp(-self.limit, self.limit)


class Whiten(Stage, name="whiten"):
    def fit(self, x):
        cov = x.T @ x / x.shape[0] + torch.eye(x.shape[1], device=x.device)
        self.root = torch.linalg.inv(cov)
        return self

    def __call__(self, x):
        return x @ self.root


class Pipeline:
    def __init__(self, stages):
        self.stages = stages

    @classmethod
    def fitted(cls, names, sample):
        stages = []
        for name in names:
            stage = STAGES[name]().fit(sample)
            sample = stage(sample)
            stages.append(stage)
        return cls(stages)

    def transform(self, x):
        for stage in self.stages:
            x = stage(x)
        return x


def build(device):
    sample = torch.randn(64, 6, device=device)
    pipeline = Pipeline.fitted(["center", "clip", "whiten"], sample)
    return pipeline.transform, (torch.randn(32, 6, device=device),)
