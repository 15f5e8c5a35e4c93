"""A Kalman tracker that an operator can put back to its last snapshot."""

import copy
import pickle

import torch

import graphsafe


class Tracker:
    def __init__(self, device, n=6):
        self.mean = torch.zeros(n, 2, device=device)
        self.var = torch.ones(n, 2, device=device)
        self.noise = 0.3
        self.count = 0

    def update(self, seen):
        self.var.add_(0.05)
        gain = self.var / (self.var + self.noise)
        self.mean.add_(gain * (seen - self.mean))
        self.var.mul_(1 - gain)
        return self.mean + 0.0

    def snapshot(self):
        return pickle.dumps({k: v.cpu() if isinstance(v, torch.Tensor) else v for k, v in self.__dict__.items()})

    def restore(self, blob, device):
        state = pickle.loads(blob)
        self.__dict__.update(
            {k: v.to(device, copy=True) if isinstance(v, torch.Tensor) else v for k, v in state.items()}
        )


def build(device):
    tracker = Tracker(device)
    first = tracker.snapshot()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(6, 2) + 1)

    return graphsafe.Step(
        tracker.update,
        (torch.randn(6, 2, device=device),),
        refresh=refresh,
        events={"look": lambda: copy.copy(tracker), "operator restores": lambda: tracker.restore(first, device)},
    )
