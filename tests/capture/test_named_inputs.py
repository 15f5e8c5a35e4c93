"""What the report says of inputs and outputs that it cannot vary or compare."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import Answer

pytestmark = pytest.mark.child
STEPS = """
import torch


class Options:
    def __init__(self):
        self.rows = [3, 2]


def numbers(device):
    def step(x, options, widths):
        return x[: options.rows[0], : max(widths)] * 2

    return step, (torch.randn(8, 4, device=device), Options(), {1, 2})


def in_a_map(device):
    return (lambda x: map(abs, [x * 2])), (torch.randn(4, device=device),)


"""


def limits(command: Callable[..., Answer], folder: Path, name: str, kind: str) -> list[tuple[str, str]]:
    (folder / "steps.py").write_text(STEPS, encoding="utf-8")
    report = command(f"steps.py:{name}", "--device", "sim").report
    assert report is not None
    return [(limit["what"], limit["why"]) for limit in report["limits"] if limit["kind"] == kind]


def test_numbers_in_objects_and_sets_are_named_as_constants(tmp_path: Path, command: Callable[..., Answer]) -> None:
    ((what, _),) = limits(command, tmp_path, "numbers", "constant")
    assert what.split(", ") == ["args[2]", "args[1].rows[0]", "args[1].rows[1]"]


def test_outputs_in_which_no_tensor_is_found_are_not_called_zero(
    tmp_path: Path, command: Callable[..., Answer]
) -> None:
    ((what, why),) = limits(command, tmp_path, "in_a_map", "not-varied")
    assert what == "args[0]" and "the step returns no tensor (a map)" in why
