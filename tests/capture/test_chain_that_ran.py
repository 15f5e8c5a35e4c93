"""A prediction of scan in a function that several targets call has the calls of the target that ran."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import Answer

STEPS = """
import os
import torch

CHECK = "CHECK" in os.environ


def doubled(x):
    if CHECK:
        print(x.sum().item())
    return x * 2


def inner(x):
    return doubled(x)


def first(device):
    def step(x):
        return doubled(x)

    return step, (torch.randn(4, device=device),)


class Second(torch.nn.Module):
    def forward(self, x):
        y = x + 1
        return inner(
            y
        )


def second(device):
    return Second(), (torch.randn(4, device=device),)
"""


@pytest.mark.child
def test_the_calls_are_those_of_this_step(tmp_path: Path, command: Callable[..., Answer]) -> None:
    (tmp_path / "steps.py").write_text(STEPS, encoding="utf-8")
    chains = {}
    for name in ("first", "second"):
        report = command(f"steps.py:{name}", "--device", "sim").report
        assert report is not None
        (found,) = [one for one in report["findings"] if one["code"] == "GS101"]
        assert found["status"] == "not-executed"
        chains[name] = [(call["function"], call["line"]) for call in found["call_chain"]]
    assert chains == {"first": [("first.step", 20)], "second": [("Second.forward", 28), ("inner", 15)]}
