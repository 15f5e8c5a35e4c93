"""A forward pass with timed sections and a norm in the log."""

import logging
import time
from contextlib import contextmanager

import torch
from torch import nn

log = logging.getLogger(__name__)


class Timings:
    def __init__(self, exact=True):
        self.exact = exact
        self.seconds = {}

    def _settle(self):
        if self.exact:
            torch.cuda.synchronize()

    @contextmanager
    def section(self, name):
        self._settle()
        begin = time.perf_counter()
        try:
            yield self
        finally:
            self._settle()
            spent = time.perf_counter() - begin
            self.seconds[name] = self.seconds.get(name, 0.0) + spent


class Encoder(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first = nn.Linear(width, 2 * width)
        self.second = nn.Linear(2 * width, width)

    def forward(self, x):
        return self.second(torch.nn.functional.gelu(self.first(x)))


class Pipeline(nn.Module):
    def __init__(self, width, timings):
        super().__init__()
        self.encoder = Encoder(width)
        self.decoder = nn.Linear(width, 3)
        self.timings = timings

    def _report(self, hidden):
        norm = hidden.norm()
        log.warning(f"hidden norm {norm:.3f}")

    def forward(self, x):
        with self.timings.section("encode"):
            hidden = self.encoder(x)
        self._report(hidden)
        return self.decoder(hidden)


def build(device):
    model = Pipeline(8, Timings()).to(device).eval().requires_grad_(False)
    return model, (torch.randn(5, 8, device=device),)
