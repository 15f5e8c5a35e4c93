"""After an edit of hot code, what depends on nothing that is other now is not gone through again."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphsafe.scan.incremental import passing
from graphsafe.scan.incremental.passage import Passage
from graphsafe.scan.incremental.passing import Passing

from .editing import Again, edit

SHARED = """\
import torch

KNOWN = {}


def shifted(x: torch.Tensor) -> torch.Tensor:
    return x + 1


def halved(x: torch.Tensor) -> torch.Tensor:
    return x / 2


class Store:
    offset = torch.zeros(1, device="cuda")

    def __init__(self) -> None:
        self.count = 0
        self.table = torch.zeros(4, device="cuda")
        self.late = None

    def fill(self) -> None:
        self.late = torch.zeros(1)
"""
FILES = {"shared.py": SHARED} | {
    f"{name.lower()}.py": f"""\
import torch
from torch import nn

from shared import KNOWN, Store, halved, shifted


class {name}(nn.Module):
    def __init__(self, store: Store) -> None:
        super().__init__()
        self.store = store

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        {body}
        return x
"""
    for name, body in {
        "Calling": "x = shifted(x)\n        x.sum().item()",
        "Halving": "x = halved(x)\n        x.sum().item()",
        "Reading": "x = x + self.store.table\n        x.sum().item()",
        "Binding": "x = x + self.store.offset\n        x.sum().item()",
        "Counting": "x = x[: self.store.count]\n        x.sum().item()",
        "Late": "x = x + self.store.late\n        x.sum().item()",
        "Drawing": "self.store.count += 1\n        x.sum().item()",
        "Alone": "x.sum().item()",
    }.items()
}


@pytest.mark.skipif(not passing.__file__.endswith(".py"), reason="machine code does not look its methods up")
@pytest.mark.parametrize(
    ("old", "new", "count"),
    [
        ("    return x + 1\n", "    return x.tolist()\n", 1),
        ("    return x / 2\n", "    return x.tolist()\n", 1),
        ("    return x / 2\n", "    x.sum().item()\n    return shifted(x)\n", 1),
        ("self.table = torch.zeros(4, device", "self.table = torch.zeros(4); device = dict(device", 2),
        ("offset = torch.zeros(1, device", "offset = torch.ones(1, device", 1),
        ("self.late = torch.zeros(1)", "self.late = 3", 1),
    ],
    ids=["a result", "another", "a call", "an attribute", "what a class binds", "a method"],
)
def test_what_has_nothing_to_do_with_an_edit_is_done_at_once(
    root: Path, again: Again, monkeypatch: pytest.MonkeyPatch, old: str, new: str, count: int
) -> None:
    """`count`: of the eight passages, one for each model."""
    settled: list[Passage | None] = []
    settle = Passing.settle

    def noted(self: Passing, passage: Passage | None) -> None:
        settled.append(passage)
        settle(self, passage)

    monkeypatch.setattr(Passing, "settle", noted)
    edit(root, "shared.py", old, new)
    _, scanned = again()
    assert not scanned
    assert len(settled) == count
