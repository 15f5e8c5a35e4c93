"""Losses in training loops whose model and criterion are not known: `backward` says that a value is a tensor."""

from __future__ import annotations

import textwrap

import pytest

from .conftest import Scan

LOOP = """\
def fit(net, criterion, optimizer, batches, accelerator, scaler, rate):
    total = 0.0
    for x, y in batches:
{step}
        optimizer.step()
"""


def loop(step: str) -> str:
    """Return a training loop with these statements."""
    return LOOP.format(step=textwrap.indent(textwrap.dedent(step), " " * 8))


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
def test_a_loss_is_a_tensor(scan: Scan, made: str, read: str, code: str) -> None:
    assert scan(loop(f"{made}\n{read}")) == [(code, read)]


@pytest.mark.parametrize(
    "step",
    [
        "weight = rate.of(x)\nloss = weight * criterion(net(x), y)\nloss.backward()\nif weight > 2: break",
        "rows = x.rows\nkernels = net.kernels\nkernels.backward(rows, x, y)\nif rows > 2: break",
    ],
)
def test_factors_and_arguments_of_kernels_may_be_numbers(scan: Scan, step: str) -> None:
    assert scan(loop(step)) == []


def test_a_loop_that_trains_and_evaluates(scan: Scan) -> None:
    text = loop("loss = criterion(net(x), y)\nloss.backward()\ntotal += loss.item()")
    assert scan(text.replace("def fit", "def train_and_evaluate")) == [("GS101", "total += loss.item()")]
