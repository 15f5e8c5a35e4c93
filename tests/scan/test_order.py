"""A scan says the same in whatever order files and roots are read, byte for byte."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from graphsafe.config import load_config
from graphsafe.scan.domain.queries import Queries

from .benchmark import ROOT, benchmark
from .projects import ENGINE, write_project

RECURSIVE = """\
import torch
from torch import nn

from layers import Block, Leaf


class Node(nn.Module):
    def __init__(self, depth):
        super().__init__()
        self.left = Node(depth - 1) if depth else Leaf(self)
        self.right = Block(self)
        self.scale = self.right.limit
        self.count = 0

    def forward(self, x: torch.Tensor, depth: int = 3):
        self.count += 1
        if depth:
            return self.forward(self.right(x, self), depth - 1) * self.count
        return self.left(x).sum().item() + self.scale


class Other(nn.Module):
    def forward(self, x: torch.Tensor):
        return Block(self)(x, Node(1)) if x.max() > 0 else Leaf(self)(x)
"""
LAYERS = """\
import torch
from torch import nn

from settings import LIMIT


class Block(nn.Module):
    limit = LIMIT

    def __init__(self, parent):
        super().__init__()
        self.parent = parent
        self.scale = parent.scale if hasattr(parent, "scale") else torch.ones(1)
        self.cached = None

    def forward(self, x, node):
        from model import Node

        if self.cached is None:
            self.cached = x.cpu()
        if x.ndim > 4:
            return Node(2)(x, 2)
        return even(x, 5) * self.scale


class Leaf(nn.Module):
    def __init__(self, parent):
        super().__init__()
        self.out = torch.zeros(3)

    def forward(self, x):
        self.out = odd(x, 4)
        return self.out


def even(x, n):
    return odd(x, n - 1) if n else x.tolist()


def odd(x, n):
    return even(x.nonzero(), n - 1) if n else x
"""
SETTINGS = """\
from layers import Block

LIMIT = 4 if Block.limit else 8
"""
RINGS = {
    "model.py": RECURSIVE,
    "layers.py": LAYERS,
    "settings.py": SETTINGS,
    "more.py": RECURSIVE.replace("Node", "Twig"),
}


def differences(folder: Path, orders: int) -> list[str]:
    shuffled = benchmark("scan/shuffled_order")
    config = load_config(folder)
    expected = shuffled.scanned(folder, config)
    assert expected["findings"]
    draw = random.Random(7)
    found: list[str] = []
    for _ in range(orders):
        other = shuffled.shuffled(folder, config, draw)
        found += shuffled.differences(expected, other)
        assert json.dumps(other) == json.dumps(expected) or found
    return found


@pytest.mark.slow
@pytest.mark.child
def test_examples_in_any_order() -> None:
    assert differences(ROOT / "examples", 3) == []


@pytest.mark.child
@pytest.mark.parametrize("files", [RINGS, ENGINE], ids=["recursion", "engine"])
def test_a_project_in_any_order(tmp_path: Path, files: dict[str, str]) -> None:
    assert differences(write_project(tmp_path, files), 12) == []


@pytest.mark.slow
@pytest.mark.child
def test_the_measured_snippets_in_any_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every sixth of them; `benchmarks/scan/shuffled_order.py` takes all."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks" / "scan")
    project = benchmark("scan/identical_reports").project_of("atlas", tmp_path)
    for number, path in enumerate(sorted(project.glob("*.py"))):
        if number % 6:
            path.unlink()
    assert differences(project, 2) == []


def test_questions_have_the_same_answers_in_any_order() -> None:
    """Graphs of questions that rest on one another, drawn: whichever is asked first, the answers are the same."""
    draw = random.Random(3)
    for _ in range(300):
        size = draw.randint(2, 9)
        asks = {n: [draw.randrange(size) for _ in range(draw.randint(0, 3))] for n in range(size)}
        expected: dict[int, str] = {}
        for _ in range(6):
            queries = Queries()

            def answer(n: int, queries: Queries = queries, asks: dict[int, list[int]] = asks) -> str:
                def work() -> str:
                    return f"{n}({','.join(answer(other) for other in asks[n])})"

                return queries.ask(n, work, lambda: f"{n}?")

            order = list(range(size))
            draw.shuffle(order)
            for n in order:
                assert expected.setdefault(n, answer(n)) == answer(n)


def test_after_a_change_the_answers_are_those_of_a_fresh_start() -> None:
    """What some questions say is changed: those that rest on it, and no others, have new answers where these differ."""
    draw = random.Random(5)
    for _ in range(400):
        size = draw.randint(2, 9)
        asks = {n: [draw.randrange(size) for _ in range(draw.randint(0, 3))] for n in range(size)}
        says = {n: draw.randrange(2) for n in range(size)}
        queries, asked = Queries(), draw.sample(range(size), size)
        for n in asked:
            _summed(queries, n, asks, says)
        for _ in range(3):
            changed = {n for n in range(size) if draw.random() < 0.3}
            for n in changed:
                says[n] = draw.randrange(2)
                asks[n] = [draw.randrange(size) for _ in range(draw.randint(0, 3))]

            def ask_again(n: object) -> bool:
                assert isinstance(n, int)
                return n % 4 != 3 and _summed(queries, n, asks, says) >= 0  # noqa: B023

            queries.invalidate(changed.__contains__, ask_again, int.__eq__)
            for n in draw.sample(range(size), size):
                assert _summed(queries, n, asks, says) == _summed(Queries(), n, asks, says)


def _summed(queries: Queries, n: int, asks: Mapping[int, Sequence[int]], says: Mapping[int, int]) -> int:
    """An answer that often stays as it was when one that it rests on does not."""

    def work() -> int:
        return min(2, says[n] + sum(_summed(queries, other, asks, says) for other in asks[n]) // 2)

    return queries.ask(n, work, lambda: 1)
