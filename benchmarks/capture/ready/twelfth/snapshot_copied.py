"""A tracker that an operator can put back: the snapshot's values are copied into the memory that the step uses."""

import pickle

import torch

import graphsafe


class Tracker:
    def __init__(self, device, n=6):
        self.mean = torch.zeros(n, 2, device=device)
        self.var = torch.ones(n, 2, device=device)
        self.updates = 0

    def update(self, seen):
        self.updates += 1
        self.var.add_(0.05)
        gain = self.var / (self.var + 0.3)
        self.mean.add_(gain * (seen - self.mean))
        self.var.mul_(1 - gain)
        return self.mean + 0.0

    def snapshot(self):
        return pickle.dumps({"mean": self.mean.cpu(), "var": self.var.cpu(), "updates": self.updates})

    def restore(self, blob):
        for name, value in pickle.loads(blob).items():
            if isinstance(value, torch.Tensor):
                getattr(self, name).copy_(value)
            else:
                setattr(self, name, value)


def build(device):
    tracker = Tracker(device)
    first = tracker.snapshot()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(6, 2) + 1)
        if k % 70 == 69:
            tracker.restore(first)

    events = {"operator restores": lambda: tracker.restore(first)}
    return graphsafe.Step(tracker.update, (torch.randn(6, 2, device=device),), refresh=refresh, events=events)
