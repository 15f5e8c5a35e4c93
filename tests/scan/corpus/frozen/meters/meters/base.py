import torch


class Metric:
    """States are attributes that `reset` puts back."""

    def __init__(self, device):
        self.device = device
        self._defaults = {}

    def add_state(self, name, default):
        self._defaults[name] = default
        setattr(self, name, default.clone() if torch.is_tensor(default) else list(default))

    def __call__(self, *batch):
        self.update(*batch)
        return self.compute()

    def update(self, *batch):
        raise NotImplementedError

    def compute(self):
        raise NotImplementedError


class Collection(Metric):
    """Several metrics over the same batches."""

    def __init__(self, **metrics):
        self.metrics = metrics

    def update(self, *batch):
        for metric in self.metrics.values():
            metric.update(*batch)

    def compute(self):
        return {name: metric.compute() for name, metric in self.metrics.items()}
