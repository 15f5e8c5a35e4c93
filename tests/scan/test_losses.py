"""Losses in training loops whose model and criterion are not known: `backward` says that a value is a tensor."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from graphsafe.config import Config
from graphsafe.scan.api import scan_paths

LOOP = """\
import torch

def fit(net, criterion, optimizer, batches, accelerator, scaler, rate):
    total = 0.0
    for x, y in batches:
{step}
        optimizer.step()
"""


def found(tmp_path: Path, step: str) -> list[tuple[str, str]]:
    """Code and line of each finding above note."""
    text = LOOP.format(step=textwrap.indent(textwrap.dedent(step), " " * 8))
    (tmp_path / "fit.py").write_text(text, encoding="utf-8")
    lines = text.splitlines()
    findings = scan_paths([tmp_path / "fit.py"], Config(root=tmp_path)).findings
    return [(f.code, lines[f.location.line - 1].strip()) for f in findings if f.level != "note"]


@pytest.mark.parametrize(
    ("made", "read", "code"),
    [
        ("loss = criterion(net(x), y)\nloss.backward()", "total += loss.item()", "GS101"),
        ("loss = criterion(net(x), y)\naccelerator.backward(loss)", "total += float(loss)", "GS101"),
        ("loss = criterion(net(x), y)\nscaler.scale(loss).backward()", "print(f'{loss:.3f}')", "GS104"),
        ("out = net.compute(x, y)\nloss = out['loss']\n(loss / 4).backward()", "if loss > 5: break", "GS102"),
        ("loss = criterion(net(x), y)\nscaled = loss / 4 if rate else loss\nscaled.backward()", "loss.item()", "GS101"),
        ("first, second = criterion(net(x), y)\n(first + 0.5 * second).backward()", "second.item()", "GS101"),
    ],
)
def test_a_loss_is_a_tensor(tmp_path: Path, made: str, read: str, code: str) -> None:
    assert found(tmp_path, f"{made}\n{read}") == [(code, read)]


@pytest.mark.parametrize(
    "step",
    [
        "weight = rate.of(x)\nloss = weight * criterion(net(x), y)\nloss.backward()\nif weight > 2: break",
        "rows = x.rows\nkernels = net.kernels\nkernels.backward(rows, x, y)\nif rows > 2: break",
    ],
)
def test_factors_and_arguments_of_kernels_may_be_numbers(tmp_path: Path, step: str) -> None:
    assert found(tmp_path, step) == []


def test_a_loop_that_trains_and_evaluates(tmp_path: Path) -> None:
    text = LOOP.format(
        step="        loss = criterion(net(x), y)\n        loss.backward()\n        total += loss.item()"
    )
    (tmp_path / "fit.py").write_text(text.replace("def fit", "def train_and_evaluate"), encoding="utf-8")
    findings = scan_paths([tmp_path / "fit.py"], Config(root=tmp_path)).findings
    assert [f.code for f in findings if f.level != "note"] == ["GS101"]
