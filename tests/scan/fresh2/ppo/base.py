import abc
import collections
import time

import torch


class TrainerBase(abc.ABC):
    """Drives the captured update; subclasses say what an update is."""

    def __init__(self, model, optimizer, minibatch, device):
        self.model = model
        self.optimizer = optimizer
        self.device = device
        self.static = {k: torch.zeros_like(v, device=device) for k, v in minibatch.items()}
        self.history = collections.defaultdict(list)
        self.graph = None
        self.metrics = {}

    @abc.abstractmethod
    def loss(self, batch):
        ...

    def _update(self):
        self.optimizer.zero_grad(set_to_none=False)
        loss, metrics = self.loss(self.static)
        loss.backward()
        self.optimizer.step()
        return {"loss": loss.detach(), **metrics}

    def capture(self):
        side = torch.cuda.Stream(self.device)
        side.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(side):
            for _ in range(3):
                self._update()
        torch.cuda.current_stream(self.device).wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=side):
            self.metrics = self._update()

    def record(self, metrics):
        for key, value in metrics.items():
            self.history[key].append(value.item())

    def fit(self, epochs, loader):
        start = time.perf_counter()
        for _ in range(epochs):
            for batch in loader:
                for key, buffer in self.static.items():
                    buffer.copy_(batch[key])
                self.graph.replay()
                self.record(self.metrics)
                if self.should_stop(self.metrics):
                    return time.perf_counter() - start
        return time.perf_counter() - start

    def should_stop(self, metrics):
        return False
