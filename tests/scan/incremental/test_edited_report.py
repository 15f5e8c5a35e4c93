"""After an edit to what no scan has looked at, the report from before holds; after any other edit it does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..editing import Again, edit, scans_again

MODEL = """\
import torch
from torch import nn

from helper import scaled


def describe(model):
    return str(model)


class Step(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return scaled(x)
"""
HELPER = """\
import torch

from settings import LIMIT


def unused(x):
    return x


def scaled(x: torch.Tensor) -> torch.Tensor:
    return x * x.sum().item() * LIMIT
"""
FILES = {"model.py": MODEL, "helper.py": HELPER, "settings.py": "OTHER = 1\n", "notes.py": "TEXT = 'nothing'\n"}


@pytest.fixture
def again(root: Path, monkeypatch: pytest.MonkeyPatch) -> Again:
    scan = scans_again(root, monkeypatch)
    report, _ = scan()
    assert [finding.code for finding in report.findings] == ["GS101"]
    return scan


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("helper.py", "def unused(x):\n    return x\n", "def unused(x):\n    x = x.item()\n\n    return x\n"),
        ("helper.py", "import torch\n", "# About this file.\n\nimport torch\n"),
        ("helper.py", "def unused", "ADDED = 1\n\n\ndef added():\n    return ADDED\n\n\ndef unused"),
        ("model.py", "def describe(model):\n    return", "def describe(model):\n    # In words.\n    return"),
        ("notes.py", "'nothing'", "'something else'"),
    ],
    ids=["a function that no step runs", "a comment", "new names", "above a root", "a file apart"],
)
def test_the_report_holds_with_its_lines_of_today(root: Path, again: Again, name: str, old: str, new: str) -> None:
    edit(root, name, old, new)
    report, read = again()
    assert not read
    (finding,) = report.findings
    source = (root / "helper.py").read_text().splitlines()
    assert ".item() * LIMIT" in source[finding.location.line - 1]
    # The next edit begins where this one ended.
    edit(root, "helper.py", "def scaled", "# Below.\ndef scaled")
    assert again()[1] is False


@pytest.mark.parametrize(
    ("name", "old", "new", "codes"),
    [
        ("settings.py", "OTHER = 1", "LIMIT = 2", ["GS101"]),
        ("model.py", "    def forward(", "    def other(self, x):\n        return x\n\n    def forward(", ["GS101"]),
        ("notes.py", "TEXT = 'nothing'", "TEXT = (", ["GS101", "GS900"]),
        ("notes.py", "TEXT = 'nothing'", "from model import Step\nclass Sub(Step):\n    pass", ["GS101"]),
        ("helper.py", ".item() * LIMIT", ".item() * LIMIT  # graphsafe: ignore[GS101] once", ["GS101"]),
        ("helper.py", "def unused(x):", "# graphsafe: hot\ndef unused(x):", ["GS101"]),
        ("notes.py", "TEXT = 'nothing'", "def execute_model(self, x):\n    return x", ["GS101"]),
    ],
    ids=[
        "a name that was missed",
        "a method",
        "a syntax error",
        "a subclass",
        "a suppression",
        "a mark",
        "what engines call",
    ],
)
def test_what_the_scan_has_seen_is_read_again(
    root: Path, again: Again, name: str, old: str, new: str, codes: list[str]
) -> None:
    edit(root, name, old, new)
    report, read = again()
    assert read
    assert sorted(finding.code for finding in report.findings) == codes


def test_files_that_come_or_go_are_read_again(root: Path, again: Again) -> None:
    (root / "notes.py").rename(root / "letters.py")
    assert again()[1]
    (root / "letters.py").unlink()
    assert again()[1]


def test_a_function_holds_its_lambdas_when_it_moves(root: Path, again: Again) -> None:
    edit(root, "helper.py", "return x * x.sum()", "add = lambda y: y + 1\n    return add(x) * x.sum()")
    again()
    edit(root, "helper.py", "def unused", "# Above.\ndef unused")
    assert not again()[1]


def test_a_call_from_a_lambda_is_named_by_the_line_of_today(root: Path, again: Again) -> None:
    edit(root, "model.py", "return scaled(x)", "return (lambda y: scaled(y))(x)")
    (finding,) = again()[0].findings
    edit(root, "model.py", "def describe", "# Above.\ndef describe")
    (moved,) = again()[0].findings
    assert [site.function for site in finding.call_chain] == ["Step.forward", "Step.forward.<lambda>:13"]
    assert [site.function for site in moved.call_chain] == ["Step.forward", "Step.forward.<lambda>:14"]


def test_a_finding_that_names_other_lines_names_those_of_today(root: Path, again: Again) -> None:
    counting = MODEL.replace(
        "        return scaled(x)\n",
        "        x = x[: self.count]\n        self.count += 1\n        return x\n",
    ).replace(
        "    def forward",
        "    def __init__(self):\n        super().__init__()\n        self.count = 0\n\n    def forward",
    )
    (root / "model.py").write_text(counting)
    report, _ = again()
    (finding,) = (finding for finding in report.findings if "uses" in finding.data)
    edit(root, "model.py", "import torch\n", "# Above.\nimport torch\n")
    report, read = again()
    (moved,) = (finding for finding in report.findings if "uses" in finding.data)
    assert read and int(moved.data["uses"]) == int(finding.data["uses"]) + 1


def test_a_finding_that_names_lines_of_its_own_file_holds_when_its_callers_move(root: Path, again: Again) -> None:
    (root / "counted.py").write_text(
        "import torch\nfrom torch import nn\n\n\nclass Counted(nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n        self.count = 0\n\n"
        "    def step(self, x: torch.Tensor):\n        x = x[: self.count]\n        self.count += 1\n        return x\n"
    )
    (root / "model.py").write_text(
        "import torch\n\nfrom counted import Counted\n\n\nclass Step(Counted):\n"
        "    def forward(self, x: torch.Tensor):\n        return self.step(x)\n"
    )
    report, _ = again()
    (finding,) = (finding for finding in report.findings if "uses" in finding.data)
    edit(root, "model.py", "class Step", "# Above.\nclass Step")
    report, read = again()
    (moved,) = (finding for finding in report.findings if "uses" in finding.data)
    assert not read and moved.data == finding.data and moved.location == finding.location
    assert [site.line for site in moved.call_chain] == [site.line + 1 for site in finding.call_chain] != []
