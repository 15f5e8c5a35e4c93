"""After an edit to a hot function it is read again, with the answers it got before; the rest only if it does anew."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from graphsafe.report.model import Report
from graphsafe.scan.incremental import earlier
from graphsafe.scan.incremental.cache import FOLDER

from .editing import Again, edit, scans_again

MODEL = """\
import torch
from torch import nn

from helper import largest, scaled


class Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.limit = 4
        self.weight = nn.Parameter(torch.ones(4))
        self.register_buffer("table", torch.zeros(4))
        self.last = None
        self.count = 0

    def forward(self, x: torch.Tensor, sizes: torch.Tensor) -> torch.Tensor:
        x = scaled(x, self.limit)
        kept = sorted(range(4), key=lambda i: -i)
        x = x * self.weight
        return self.ended(x, sizes)

    def ended(self, x: torch.Tensor, sizes: torch.Tensor) -> torch.Tensor:
        if largest(sizes) > 3:
            x = x + 1
        return x + self.table

    def unused(self, x: torch.Tensor) -> torch.Tensor:
        return x
"""
HELPER = """\
import time

import torch


def scaled(x: torch.Tensor, limit: int) -> torch.Tensor:
    began = time.time()
    y = x * limit
    return y


def largest(x: torch.Tensor) -> int:
    return int(x.max())


def another(x: torch.Tensor) -> torch.Tensor:
    return x
"""
FILES = {"model.py": MODEL, "helper.py": HELPER}


@pytest.fixture
def again(root: Path, monkeypatch: pytest.MonkeyPatch) -> Again:
    scan = scans_again(root, monkeypatch, "possible")
    report, _ = scan()
    assert codes(report) == ["GS101"]
    return scan


def codes(report: Report) -> list[str]:
    return sorted(finding.code for finding in report.findings if not finding.code.startswith("GS4"))


@pytest.mark.parametrize(
    ("name", "old", "new", "found"),
    [
        ("helper.py", "    y = x * limit\n", "    y = x * limit\n    y.sum().item()\n", ["GS101", "GS101"]),
        ("helper.py", "    began = time.time()\n", "", ["GS101"]),
        ("helper.py", "    return int(x.max())", "    x = x.max()\n    return int(x)", ["GS101"]),
        ("model.py", "        kept = ", "        x[self.limit].cpu()\n        kept = ", ["GS101", "GS103"]),
        (
            "model.py",
            "        x = x * self.weight\n",
            "        x = x * self.weight\n        x.tolist()\n",
            ["GS101", "GS101"],
        ),
        ("model.py", "largest(sizes) > 3", "largest(sizes) > 3 and largest(sizes) < 9", ["GS101"]),
        ("model.py", "        return x + self.table\n", "        return x * self.weight + self.table\n", ["GS101"]),
        ("model.py", "            x = x + 1\n", "            x = x + 1\n            x[x > 0]\n", ["GS101", "GS202"]),
        ("model.py", "self.limit = 4", "self.limit = 2 + 2", ["GS101"]),
        ("model.py", "    def unused", "    # Nobody calls it.\n    def unused", ["GS101"]),
    ],
    ids=[
        "a wait",
        "a statement less",
        "the same in two lines",
        "above a lambda",
        "a wait in a root",
        "a call once more",
        "an attribute that others have read",
        "a mask",
        "a constructor that leaves the same",
        "a comment",
    ],
)
def test_an_edited_function_is_all_that_is_read(
    root: Path, again: Again, monkeypatch: pytest.MonkeyPatch, name: str, old: str, new: str, found: list[str]
) -> None:
    monkeypatch.delattr(earlier, "retraced")
    edit(root, name, old, new)
    report, scanned = again()
    assert codes(report) == found
    assert not scanned


def test_one_edit_after_another(root: Path, again: Again) -> None:
    edit(root, "helper.py", "    y = x * limit\n", "    y = x * limit\n    y.sum().item()\n")
    assert not again()[1]
    edit(root, "helper.py", "import time\n", "# Above.\nimport time\n")
    assert not again()[1]
    edit(root, "helper.py", "    y.sum().item()\n", "    y.sum().item()\n    y.tolist()\n")
    edit(root, "model.py", "        x = x * self.weight\n", "        x = x * self.weight\n\n        x.cpu()\n")
    report, scanned = again()
    assert codes(report) == ["GS101", "GS101", "GS101", "GS103"] and not scanned
    (root / "model.py").write_text(MODEL)
    (root / "helper.py").write_text(HELPER)
    report, scanned = again()
    assert codes(report) == ["GS101"] and not scanned


def test_state_that_a_step_leaves_to_the_next_is_judged_again(root: Path, again: Again) -> None:
    counting = "        x = x[: self.count]\n        self.count += 1\n        kept = "
    edit(root, "model.py", "        kept = ", counting)
    report, scanned = again()
    assert not scanned
    (finding,) = (finding for finding in report.findings if "uses" in finding.data)
    edit(root, "model.py", counting, "        y = x\n" + counting)
    report, scanned = again()
    (moved,) = (finding for finding in report.findings if "uses" in finding.data)
    assert not scanned and int(moved.data["uses"]) == int(finding.data["uses"]) + 1


@pytest.mark.parametrize("damage", ["delete from readings", "update readings set data = '[1, 2]'"])
def test_without_what_was_kept_it_takes_a_scan(root: Path, again: Again, damage: str) -> None:
    for file in (root / FOLDER).glob("*.db"):
        with sqlite3.connect(file) as connection:
            assert connection.execute(damage).rowcount > 0
        connection.close()
    edit(root, "helper.py", "    y = x * limit\n", "    y = x * limit\n    y.sum().item()\n")
    report, scanned = again()
    assert codes(report) == ["GS101", "GS101"] and scanned


RUNNER = """\
import torch


class Runner:
    def capture(self, x):
        self.inputs = x
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            y = self.inputs * 2
            self.out = y

    def run(self, batches):
        kept = []
        for x in batches:
            self.inputs.copy_(x)
            self.graph.replay()
            kept.append(self.out.clone())
        return kept
"""


def test_captures_and_replays_are_judged_again(root: Path, again: Again) -> None:
    (root / "runner.py").write_text(RUNNER)
    before, _ = again()
    edit(root, "runner.py", "            self.out = y", "            y.sum().item()\n            self.out = y")
    inside, scanned = again()
    assert len(inside.findings) == len(before.findings) + 1 and not scanned
    edit(root, "runner.py", "self.out.clone()", "self.out")
    around, scanned = again()
    assert sorted((*codes(inside), "GS706")) == codes(around) and not scanned


DROPPING = """\
import random

import torch
from torch import nn


def dropped(x: torch.Tensor) -> torch.Tensor:
    return x * random.random()


class Layer(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.training:
            x = dropped(x)
        return x
"""


def test_what_is_judged_by_its_callers_is_judged_anew(root: Path, again: Again) -> None:
    (root / "layer.py").write_text(DROPPING)
    again()
    edit(root, "layer.py", "        if self.training:\n            x", "        if x.ndim > 1:\n            x")
    _, scanned = again()
    assert scanned


HOSTED = """\
import torch
from torch import nn


def fields():
    return {"sizes": field("image", keep_on_cpu=True), "mask": field("image")}


class Tower(nn.Module):
    def forward(self, x: torch.Tensor, **kwargs: object) -> torch.Tensor:
        sizes = kwargs["sizes"].tolist()
        return x * sizes[0]
"""


def test_a_function_in_which_something_is_looked_for_counts_as_it_stands(root: Path, again: Again) -> None:
    (root / "tower.py").write_text(HOSTED)
    on_host, _ = again()
    edit(root, "tower.py", "        return x * sizes[0]", "        x.cpu()\n        return x * sizes[0]")
    report, scanned = again()
    assert codes(report) == sorted((*codes(on_host), "GS103")) and not scanned
    edit(root, "tower.py", "keep_on_cpu=True", "keep_on_cpu=False")
    report, scanned = again()
    assert len(report.findings) > len(on_host.findings) + 1 and scanned
