"""After any edit a scan with a cache says what a scan without one says: `again` compares the two."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..editing import Again, edit

MODEL = """\
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
BASE = """\
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
HELPER = """\
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
RUNNER = """\
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
FILES = {"model.py": MODEL, "base.py": BASE, "helper.py": HELPER, "runner.py": RUNNER}


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("helper.py", "    return y\n\n\ndef largest", "    return y.cpu()\n\n\ndef largest"),
        ("helper.py", "    return y\n\n\ndef largest", "    return another(y)\n\n\ndef largest"),
        ("helper.py", "return scaled(x, LIMIT)", "return x.tolist()"),
        ("helper.py", "    y = function(x)\n", "    y = function(x.cpu())\n"),
        ("base.py", "return scaled(x, self.scale)", "return x"),
        ("base.py", 'self.scale = torch.ones(1, device="cuda")', "self.scale = torch.ones(1)"),
        ("base.py", "self.shared = None", "self.shared = torch.ones(1)"),
        (
            "model.py",
            "        return self.ended(x, sizes)",
            "        self.last = x\n        return self.ended(x, sizes)",
        ),
        (
            "model.py",
            "        return self.ended(x, sizes)",
            "        self.fresh = x\n        return self.ended(x, sizes)",
        ),
        ("model.py", "        return self.ended(x, sizes)", "        return self.ended(x, sizes.cpu())"),
        ("model.py", "        return self.ended(x, sizes)", "        return x"),
        ("model.py", "self.limit = 4", "self.limit = torch.ones(3)"),
        ("model.py", "self.limit = 4", "self.limit = 4\n        self.scale = torch.ones(1)"),
        ("model.py", "return self.count > LIMIT", "return bool(sizes.max())"),
        ("model.py", "return self.count > LIMIT", "return False"),
        ("model.py", "lambda y: y + self.ready", "lambda y: y + self.ready.cpu()"),
        ("model.py", "lambda x: x[0]", "lambda x: x.item()"),
        ("model.py", 'torch.ones(3, device="cuda")', "torch.ones(3)"),
        ("model.py", "        self.count += 1\n", ""),
        ("model.py", "        x = scaled(x, self.limit)\n", "        x = self.unused(x)\n"),
        ("model.py", "return self.pick(super().closing(x))", "return x"),
        (
            "runner.py",
            "            self.out = self.model(self.inputs, sizes)",
            "            self.out = self.inputs * 2",
        ),
        ("helper.py", "limit: int) ->", "limit: int = 2) ->"),
        ("model.py", "    def unused(", "    def useless("),
        ("model.py", "def forward(self, x: torch.Tensor", "def forward(self, x: Batch"),
        ("model.py", "Batch = list[int]", "Batch = list[torch.Tensor]"),
        ("helper.py", "LIMIT = 3", "LIMIT = {0: lambda x: x.item()}"),
        ("model.py", "class Other(Step)", "class Other(Base)"),
        ("model.py", "    def unused(", "    @torch.no_grad()\n    def unused("),
        ("model.py", "from helper import LIMIT, apply", "from helper import LARGE as LIMIT, apply"),
    ],
)
def test_an_edit_and_the_way_back(root: Path, again: Again, name: str, old: str, new: str) -> None:
    edit(root, name, old, new)
    again()
    (root / name).write_text("# Above.\n" + (root / name).read_text())
    again()
    (root / name).write_text(FILES[name])
    _, scanned = again()
    assert not scanned


def edits(source: str) -> Iterator[str]:
    """The source with each statement of its functions taken out, and with each value returned replaced."""
    lines = source.split("\n")
    functions = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]
    for statement in (statement for function in functions for statement in function.body):
        first, last = statement.lineno - 1, statement.end_lineno
        indent = " " * statement.col_offset
        yield "\n".join([*lines[:first], f"{indent}pass", *lines[last:]])
        yield "\n".join([*lines[:first], f"{indent}if kept_back: return None", *lines[first:]])


@pytest.mark.parametrize("name", sorted(FILES))
def test_any_edit_of_a_function(root: Path, again: Again, name: str) -> None:
    for source in edits(FILES[name]):
        (root / name).write_text(source)
        again()


def test_files_and_methods_that_come_and_go(root: Path, again: Again) -> None:
    (root / "more.py").write_text(
        "from model import Step\n\n\nclass More(Step):\n    def closing(self, x):\n        x.cpu()\n"
    )
    assert len(again()[0].findings) > 0
    edit(
        root,
        "more.py",
        "        x.cpu()\n",
        "        x.cpu()\n\n    def is_large(self, sizes):\n        return sizes.item()\n",
    )
    again()
    (root / "more.py").rename(root / "others.py")
    again()
    (root / "others.py").unlink()
    again()
