"""State in globals and in classes, which all objects share: a replay does not repeat its changes."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from graphsafe.config import Config
from graphsafe.scan.api import scan_paths

SHARED = """
import itertools
import torch

TALLY = {"rounds": 0, "gain": 2.0}
TURN = [0]
SIZES = []
MEAN = {"m": torch.zeros(4, device="cuda"), "v": torch.zeros(4, device="cuda")}
round = 0
WIDTH = 4


class Book:
    page = 0
    marks = {"last": 0}
    serials = itertools.count()
"""

IMPORTS = "import torch\nfrom torch import nn\nimport shared\nfrom shared import MEAN, SIZES, TALLY, TURN, Book"
STEP = "class Step(nn.Module):\n    sizes = []\n\n    def forward(self, x):\n"


def found(tmp_path: Path, lines: str, more: str = "") -> list[tuple[str, str]]:
    """Code and line of each finding above note, for a module whose `forward` has these lines."""
    text = f"{IMPORTS}\n\n{textwrap.dedent(more)}\n\n{STEP}{textwrap.indent(lines, ' ' * 8)}"
    (tmp_path / "shared.py").write_text(SHARED, encoding="utf-8")
    (tmp_path / "step.py").write_text(text, encoding="utf-8")
    shown = text.splitlines()
    return [
        (f.code, shown[f.location.line - 1].strip())
        for f in scan_paths([tmp_path], Config(root=tmp_path)).findings
        if f.level != "note" and not f.code.startswith("GS4")
    ]


@pytest.mark.parametrize(
    ("line", "result", "code"),
    [
        ('TALLY["rounds"] += 1', 'x * TALLY["rounds"]', "GS702"),
        ("TURN[0] ^= 1", "x + TURN[0]", "GS702"),
        ("shared.round += 1", "x * shared.round", "GS702"),
        ('shared.TALLY["gain"] = shared.TALLY["gain"] * 0.9', 'x * TALLY["gain"]', "GS702"),
        ("Book.page += 1", "x * Book.page", "GS702"),
        ("shared.Book.page += 1", "x * Book.page", "GS702"),
        ('Book.marks["last"] += 1', 'x * Book.marks["last"]', "GS702"),
        ("n = next(Book.serials)", "x + n", "GS702"),
        ('MEAN["m"] = MEAN["m"] * 0.9 + x', 'MEAN["m"]', "GS703"),
    ],
)
def test_a_change_of_shared_state_is_found(tmp_path: Path, line: str, result: str, code: str) -> None:
    assert found(tmp_path, f"{line}\nreturn {result}") == [(code, line)]


@pytest.mark.parametrize(
    "lines",
    [
        'TALLY["rounds"] += 1\nreturn x * TALLY["gain"]',
        'TALLY["rounds"] += 1\nif TALLY["rounds"] % 100 == 0:\n    print("alive")\nreturn x',
        'MEAN["m"].mul_(0.9).add_(x)\nreturn MEAN["m"] + MEAN["v"]',
        'marks = dict(Book.marks)\nmarks["last"] += 1\nreturn x * marks["last"]',
        "Book.page = x.shape[0]\nreturn x.view(Book.page, -1)",
        'shared.TALLY["rows"] = x.shape[0]\nreturn x * shared.TALLY["rows"]',
        "turns = TURN[:]\nturns[0] += 1\nreturn x * turns[0]",
        "return x * shared.WIDTH * Book.page",
        "if not SIZES:\n    SIZES.append(torch.cuda.device_count())\nreturn x * SIZES[0]",
        "if not self.sizes:\n    self.sizes.append(torch.cuda.device_count())\nreturn x * self.sizes[0]",
    ],
)
def test_shared_state_that_each_step_sets_or_only_the_host_reads_is_quiet(tmp_path: Path, lines: str) -> None:
    assert found(tmp_path, lines) == []


def test_a_global_memory_that_begins_empty(tmp_path: Path) -> None:
    begin = 'h = PAST.get("h")\nif h is None:\n    h = torch.zeros_like(x)\n'
    rebound = 'h = torch.tanh(x + h)\nPAST["h"] = h\nreturn h'
    filled = 'PAST["h"] = h\nh.mul_(0.5).add_(x)\nreturn torch.tanh(h)'
    assert found(tmp_path, begin + rebound, "PAST = {}") == [("GS703", 'PAST["h"] = h')]
    assert found(tmp_path, begin + filled, "PAST = {}") == []
