"""The captured step of an optimizer: numbers and weights that it froze, and state that it first made in the capture."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from tests.run.test_run import PROGRAMS, expected, run

pytestmark = pytest.mark.child


def test_a_changed_learning_rate_is_told_and_sound_schedules_are_not(tmp_path: Path) -> None:
    shutil.copy(PROGRAMS / "schedules.py", tmp_path)
    ran = run(tmp_path, "-o", "ledger.json", "--", sys.executable, "schedules.py")
    assert ran.stdout == "done\n", ran.stderr
    found = json.loads((tmp_path / "ledger.json").read_text(encoding="utf-8"))["findings"]
    assert {(one["code"], one["location"]["line"]) for one in found} == expected(PROGRAMS / "schedules.py")
    (finding,) = found
    assert finding["data"]["argument"] == "Adam.param_groups[0]['lr']"
    assert (finding["data"]["captured"], finding["data"]["now"]) == ("0.001", "0.0009000000000000001")


@pytest.mark.slow
def test_state_made_in_a_capture_and_thawed_weights_are_told(tmp_path: Path) -> None:
    shutil.copy(PROGRAMS / "first_step.py", tmp_path)
    ran = run(tmp_path, "-o", "ledger.json", "--", sys.executable, "first_step.py")
    assert ran.stdout == "done\n", ran.stderr
    found = json.loads((tmp_path / "ledger.json").read_text(encoding="utf-8"))["findings"]
    assert {(one["code"], one["location"]["line"]) for one in found} == expected(PROGRAMS / "first_step.py")
    arguments = {one["data"].get("argument") for one in found if one["code"] == "GS713"}
    assert arguments == {"Adam.param_groups[0]['params'][2].requires_grad"}
