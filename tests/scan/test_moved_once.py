"""Attributes that the first step moves to the device: `self.table = self.table.to(x)`."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from graphsafe.config import Config
from graphsafe.scan.api import scan_paths

MODULE = """\
    import torch
    from torch import nn


    class Steps(nn.Module):
        def __init__(self, n):
            super().__init__()
            self.sizes = {made}

        def forward(self, x):
            {first}
            self.sizes = self.sizes.to(x)  # moved
            return x * self.sizes


    def build(device):
        return Steps(3).to(device), (torch.rand(3, device=device),)
    """


@pytest.mark.parametrize(
    ("made", "first", "found"),
    [
        ("torch.tensor([1.0, 2.0, 4.0])", "pass", [("GS301", "note")]),
        ("torch.linspace(0, 1, n)", "pass", [("GS304", "note")]),
        ("torch.tensor([1.0, 2.0, 4.0])", "self.sizes = torch.tensor([1.0, 2.0, 3.0])", [("GS301", "error")]),
        ("torch.linspace(0, 1, n)", "self.sizes = torch.linspace(1, 2, 3)", [("GS304", "error")]),
        ("None", "self.sizes = torch.linspace(1, 2, 3)", [("GS304", "error")]),
    ],
)
def test_only_the_first_step_copies(tmp_path: Path, made: str, first: str, found: list[tuple[str, str]]) -> None:
    path = tmp_path / "steps.py"
    path.write_text(textwrap.dedent(MODULE).format(made=made, first=first), encoding="utf-8")
    moved = next(i for i, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1) if "# moved" in line)
    findings = scan_paths([path], Config(root=tmp_path)).findings
    assert [(f.code, f.level) for f in findings if f.location.line == moved and f.code[:3] == "GS3"] == found


@pytest.mark.parametrize("call", ["to(x)", "type_as(x)"])
def test_a_table_that_the_first_step_converts_is_not_rebound(tmp_path: Path, call: str) -> None:
    source = textwrap.dedent(MODULE).format(made="torch.linspace(0, 1, n)", first="pass").replace("to(x)", call)
    (tmp_path / "steps.py").write_text(source, encoding="utf-8")
    report = scan_paths([tmp_path], Config(root=tmp_path))
    assert [(one.code, one.level) for one in report.findings] == [("GS304", "note")]


def test_an_object_of_the_step_copies_in_each_step(tmp_path: Path) -> None:
    source = """\
        import torch
        from torch import nn


        class Filter:
            def __init__(self):
                self.taps = torch.tensor([0.25, 0.5, 0.25])

            def apply(self, x):
                self.taps = self.taps.to(x)
                return x * self.taps


        class Smooth(nn.Module):
            def forward(self, x):
                return Filter().apply(x)


        def build(device):
            return Smooth().to(device), (torch.rand(3, device=device),)
        """
    path = tmp_path / "steps.py"
    path.write_text(textwrap.dedent(source), encoding="utf-8")
    codes = [(f.code, f.level) for f in scan_paths([path], Config(root=tmp_path)).findings if f.code[:3] == "GS3"]
    assert ("GS301", "error") in codes


KEPT = """\
import torch


def initial():
    return {{"sizes": torch.linspace(0, 1, 8)}}


def after_step(state, x):
    state["sizes"] = {moved}
    {more}
    return x * state["sizes"]


def train(model, opt, batches, device):
    state = initial()
    for x in batches:
        x = x.to(device)
        loss = model(x).sum()
        loss.backward()
        opt.step()
        after_step(state, x)
"""


@pytest.mark.parametrize(
    ("moved", "more", "found"),
    [
        ("state['sizes'].to(x.device)", "pass", False),
        ("torch.linspace(0, 1, 8).to(x.device)", "pass", True),
        ("state['sizes'].to(x.device)", "state['sizes'] = torch.linspace(0, 1, 8)", True),
    ],
)
def test_an_entry_of_a_table_that_the_caller_keeps(tmp_path: Path, moved: str, more: str, found: bool) -> None:
    (tmp_path / "train.py").write_text(KEPT.format(moved=moved, more=more), encoding="utf-8")
    findings = scan_paths([tmp_path], Config(root=tmp_path)).findings
    assert any(one.code == "GS304" and one.level != "note" and one.location.line == 9 for one in findings) is found
