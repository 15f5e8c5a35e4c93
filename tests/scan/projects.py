"""Projects that tests write and scan, and the text of a report without its time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from graphsafe.report.forms import render
from graphsafe.report.model import Report


def write_project(root: Path, files: Mapping[str, str]) -> Path:
    (root / "pyproject.toml").write_text("")
    for name, text_of_file in files.items():
        (root / name).write_text(text_of_file)
    return root


def text(report: Report) -> str:
    return render(replace(report, created=""), "json")


_MODEL = """\
import torch
from torch import nn

from base import Base
from helper import LIMIT, apply, chooser, largest, scaled, twice


Batch = list[int]


class Config:
    sizes = [1, 2, 3]

    def __init__(self) -> None:
        self.eager = False
        self.offset = torch.zeros(3)


class Step(Base):
    factor = 2

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.limit = 4
        self.weight = nn.Parameter(torch.ones(4))
        self.register_buffer("table", torch.zeros(4))
        self.pick = lambda x: x[0]
        self.last = None
        self.steps = torch.ones(4, device="cuda")
        self.choose = chooser(0)
        self.count = 0
        self.prepare()

    def prepare(self) -> None:
        self.ready = torch.ones(3, device="cuda")

    def forward(self, x: torch.Tensor, sizes: torch.Tensor, batch: Batch) -> torch.Tensor:
        x = scaled(x, batch[0])
        x = scaled(x, self.limit)
        kept = sorted(range(4), key=lambda i: -i)
        x = x * self.weight * self.factor
        x = apply(lambda y: y + self.ready, x)
        if self.is_large(sizes):
            x = twice(x, 3)
        return self.ended(x, sizes)

    def is_large(self, sizes: torch.Tensor) -> bool:
        return self.count > LIMIT

    def ended(self, x: torch.Tensor, sizes: torch.Tensor) -> torch.Tensor:
        if largest(sizes) > 3:
            x = x + 1
        self.count += 1
        self.unused(x, [])
        x = self.stepped(x)
        return self.closing(x) + self.table + self.config.offset

    def stepped(self, x: torch.Tensor) -> torch.Tensor:
        steps = self.steps
        y = self.choose(x) * self.limit
        self.steps = torch.ones(4, device="cuda")
        return y + steps

    def unused(self, x: torch.Tensor, batch: Batch) -> torch.Tensor:
        return x[self.config.sizes].cpu() * batch[0]


class Other(Step):
    def closing(self, x: torch.Tensor) -> torch.Tensor:
        return self.pick(super().closing(x))
"""
_BASE = """\
import torch
from torch import nn

from helper import scaled


class Base(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.ones(1, device="cuda")
        self.shared = None

    def closing(self, x: torch.Tensor) -> torch.Tensor:
        return scaled(x, self.scale)
"""
_HELPER = """\
import time

import torch

LARGE = torch.ones(1)
LIMIT = 3


def scaled(x: torch.Tensor, limit: int) -> torch.Tensor:
    began = time.time()
    y = x * limit
    return y


def largest(x: torch.Tensor) -> int:
    return int(x.max())


def twice(x: torch.Tensor, depth: int) -> torch.Tensor:
    if depth:
        return twice(x + x, depth - 1)
    return scaled(x, LIMIT)


def apply(function, x):
    y = function(x)
    return y


def chooser(index: int):
    return lambda x: x[index]


def another(x: torch.Tensor) -> torch.Tensor:
    return x.tolist()
"""
_RUNNER = """\
import torch

from model import Config, Step


class Runner:
    def __init__(self) -> None:
        self.model = Step(Config())
        self.graph = torch.cuda.CUDAGraph()

    def capture(self, x, sizes):
        self.inputs = x
        with torch.cuda.graph(self.graph):
            self.out = self.model(self.inputs, sizes)

    def run(self, batches):
        for x in batches:
            self.inputs.copy_(x)
            self.graph.replay()
"""
ENGINE = {"model.py": _MODEL, "base.py": _BASE, "helper.py": _HELPER, "runner.py": _RUNNER}
"A small engine that captures its model, by file."
