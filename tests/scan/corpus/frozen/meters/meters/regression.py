import time

import torch

from .base import Metric


class RunningTotal(Metric):
    def __init__(self, device):
        super().__init__(device)
        self.add_state("total", torch.zeros((), device=device))

    def update(self, values):
        self.total = self.total + values.sum()  # guilty: running_total GS703

    def compute(self):
        return self.total


class Moments(Metric):
    names = ("first", "second")

    def __init__(self, device):
        super().__init__(device)
        for name in self.names:
            self.add_state(name, torch.zeros((), device=device))

    def update(self, values):
        for power, name in enumerate(self.names, 1):
            setattr(self, name, getattr(self, name) + (values**power).mean())  # guilty: moments GS703

    def compute(self):
        return self.second - self.first**2


# quiet: moments_inplace
class MomentsInPlace(Moments):
    def update(self, values):
        for power, name in enumerate(self.names, 1):
            getattr(self, name).add_((values**power).mean())


class MeanOverHostCount(Metric):
    def __init__(self, device):
        super().__init__(device)
        self.count = 0
        self.add_state("sum", torch.zeros((), device=device))

    def update(self, values):
        self.count += len(values)  # guilty: host_count GS702
        self.sum.add_(values.sum())

    def compute(self):
        return self.sum / self.count  # guilty: host_count GS702


class Best(Metric):
    def __init__(self, device):
        super().__init__(device)
        self.best = torch.full((), 1e9, device=device)

    def update(self, values):
        self.best.copy_(min(self.best, values.mean()))  # guilty: best_so_far GS102

    def compute(self):
        return self.best


# quiet: best_so_far_minimum
class BestMinimum(Best):
    def update(self, values):
        torch.minimum(self.best, values.mean(), out=self.best)


class FrechetDistance(Metric):
    def update(self, values):
        self.covariance = values.T @ values

    def compute(self):
        return torch.linalg.eigvalsh(self.covariance).clamp(min=0).sqrt().sum()  # guilty: frechet GS106


class Throughput(Metric):
    def __init__(self, device):
        super().__init__(device)
        self.last = time.perf_counter()

    def update(self, values):
        now = time.perf_counter()  # guilty: throughput GS504|GS702
        self.elapsed, self.last = now - self.last, now
        self.items = values.abs().sum()

    def compute(self):
        return self.items / self.elapsed


class Truthy(Metric):
    """True as soon as anything was counted."""

    def __init__(self, device):
        super().__init__(device)
        self.add_state("total", torch.zeros((), device=device))

    def __bool__(self):
        return bool(self.total > 0)  # guilty: truthy_metric GS101|GS102

    def update(self, values):
        if self:  # guilty: truthy_metric GS102|GS101
            self.total.mul_(0.5)
        self.total.add_(values.abs().sum())

    def compute(self):
        return self.total


class Percentile(Metric):
    def update(self, values):
        self.values = values.detach().to("cpu").numpy()  # guilty: host_percentile GS103

    def compute(self):
        return torch.from_numpy(self.values).to(self.device).median()  # guilty: host_percentile GS304
