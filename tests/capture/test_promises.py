"""Promises about every report and every process of a capture: boundaries 5 and 8 of ARCHITECTURE.md."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import DEVICES, TARGETS, Prove

LOGGED = """
import os
import torch

def log(word):
    with open(os.path.join(os.path.dirname(__file__), "attempts"), "a") as file:
        print(os.getpid(), word, file=file)

def build(device):
    x = torch.ones(4, device=device)
    log("built")

    def step(x):
        y = x * 2
        try:
            scale = y.sum().item()
        except BaseException:
            log("failed")
            raise
        log("stepped")
        return y * scale

    return step, (x,)
"""


@pytest.mark.parametrize("device", DEVICES)
def test_a_process_whose_capture_failed_runs_the_step_no_more(prove: Prove, device: str, tmp_path: Path) -> None:
    """PyTorch's generators and allocator can be broken by it, so that whatever runs later proves nothing."""
    (tmp_path / "model.py").write_text(LOGGED, encoding="utf-8")
    [report] = prove([f"{tmp_path / 'model.py'}:build"], device, root=tmp_path)
    assert report["verdict"] == "not-ready", report["limits"]
    spoiled: set[str] = set()
    for line in (tmp_path / "attempts").read_text(encoding="utf-8").splitlines():
        process, word = line.split()
        assert process not in spoiled, f"{word} after a failed capture"
        if word == "failed":
            spoiled.add(process)
    assert spoiled


@pytest.mark.parametrize(
    "names",
    [["rebound"], pytest.param(["rebound", "unjoined", "class_plan"], marks=pytest.mark.slow)],
    ids=" ".join,
)
def test_two_captures_of_a_step_write_the_same_report_but_for_times(names: list[str], prove: Prove) -> None:
    targets = [f"{TARGETS / 'silent.py'}:{name}" for name in names]
    first, second = (prove(targets, "sim:0") for _ in range(2))
    for report in (*first, *second):
        del report["created"], report["devices"][0]["probes"]["timing"]
    assert first == second
