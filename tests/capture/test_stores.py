"""Stores from host memory into a device tensor (GS303): scan and capture propose the same fix, and it works."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import graphsafe

from .conftest import Answer

pytestmark = pytest.mark.child

TARGET = """
import torch


class Store(torch.nn.Module):
    def __init__(self, device):
        super().__init__()
        self.register_buffer("rows", torch.tensor([0, 2], dtype=torch.long, device=device))
        self.host = torch.ones(2, 4)

    def forward(self, x):
        y = x.clone()
        {line}
        return y * 2


def build(device):
    return Store(device), (torch.randn(4, 4, device=device),)
"""
BY_INDEX = "buf.index_fill_(0, positions, value)"


@pytest.mark.parametrize(
    ("line", "fix"),
    [
        ("y[0, 1] = 0.5", "fill the element: buf[i].fill_(value)"),
        ("y[self.rows] = 0.5", BY_INDEX),
        pytest.param("y[self.rows, 0] = 7", BY_INDEX, marks=pytest.mark.slow),
        pytest.param("y[self.rows] = torch.tensor(0.5)", BY_INDEX, marks=pytest.mark.slow),
        pytest.param("y[0:2] = self.host", "keep the tensor on the device", marks=pytest.mark.slow),
    ],
)
def test_scan_and_capture_propose_the_same_fix(
    line: str, fix: str, tmp_path: Path, command: Callable[..., Answer]
) -> None:
    """`y[rows].fill_(0.5)` would fill a copy, so it is never proposed for an index tensor."""
    (tmp_path / "step.py").write_text(TARGET.format(line=line), encoding="utf-8")
    report = command("step.py:build", "--device", "sim").report
    assert report is not None and report["verdict"] == "not-ready"
    (found,) = [one for one in report["findings"] if one["code"] == "GS303"]
    assert found["status"] == "confirmed" and found["fix"].startswith(fix)
    (predicted,) = [one for one in graphsafe.scan([tmp_path / "step.py"]).findings if one.code == "GS303"]
    assert (predicted.why, predicted.fix) == (found["why"], found["fix"])
    assert (".fill_(value)" in predicted.fix) == (line == "y[0, 1] = 0.5")


@pytest.mark.parametrize(
    "line",
    [
        "y.index_fill_(0, self.rows, 0.5)",
        pytest.param("y[0, 1].fill_(0.5)", marks=pytest.mark.slow),
        pytest.param("y[self.rows, 0] = y.new_full((), 7)", marks=pytest.mark.slow),
    ],
)
def test_the_proposed_code_captures(line: str, tmp_path: Path, command: Callable[..., Answer]) -> None:
    (tmp_path / "step.py").write_text(TARGET.format(line=line), encoding="utf-8")
    report = command("step.py:build", "--device", "sim").report
    assert report is not None and report["verdict"] == "ready"
    assert not [one for one in report["findings"] if one["level"] == "error"]
