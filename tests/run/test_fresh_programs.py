"""Programs around replays, written without a look at graphsafe, each driven a few steps on the simulated device.

Of 34 hazards 7 were found at first sight, when waits and eager steps of forked processes were not noted.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ValidReport
from tests.run.labelled import WAITS
from tests.run.test_run import run

pytestmark = [pytest.mark.child, pytest.mark.slow]
FOLDER = Path(__file__).parent / "fresh"
LABELS: dict[str, Any] = json.loads((FOLDER / "labels.json").read_text(encoding="utf-8"))
FOUND = 25
"Hazards that are found, with the line."

Place = tuple[str, str, int]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    folder = tmp_path_factory.mktemp("programs") / "programs"
    shutil.copytree(FOLDER, folder)
    return folder, run(folder, "--waits", "--", sys.executable, "drive.py", OMP_NUM_THREADS="1")


@pytest.fixture(scope="module")
def found(ran: tuple[Path, subprocess.CompletedProcess[str]], valid_report: ValidReport) -> list[Place]:
    """Code, file and line of each finding."""
    ledger = valid_report((ran[0] / "graphsafe-ledger.json").read_text(encoding="utf-8"))
    return [(one["code"], one["location"]["path"], one["location"]["line"]) for one in ledger["findings"]]


def test_the_programs_run_to_their_end(ran: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    lines = ran[1].stdout.splitlines()
    ends = dict(line.split() for line in lines if line.partition(" ")[0] in {Path(name).stem for name in LABELS})
    assert {name for name, code in ends.items() if code != "0"} == {"prefetch_scorer"}  # its capture fails, as labelled
    assert len(ends) == len(LABELS)


def test_hazards_are_found(found: list[Place]) -> None:
    hits = 0
    for label in LABELS.values():
        for hazard in label["hazards"]:
            places = [(one["file"], one["line"]) for one in (hazard, *hazard.get("also_lines", ()))]
            hits += any(code in hazard["codes"] and (path, line) in places for code, path, line in found)
    assert hits >= FOUND


def test_every_output_that_is_kept_is_found(found: list[Place]) -> None:
    hazards = [one for label in LABELS.values() for one in label["hazards"] if one["codes"] == ["GS706"]]
    missed = []
    for hazard in hazards:
        places = [(one["file"], one["line"]) for one in (hazard, *hazard.get("also_lines", ()))]
        if not any(code == "GS706" and (path, line) in places for code, path, line in found):
            missed.append((hazard["file"], hazard["line"]))
    assert missed == [("maybe_graphed.py", 75)]  # its capture fails, so that there is no graph


def test_sound_programs_are_accused_of_nothing_but_waits(found: list[Place]) -> None:
    sound = {name for name, label in LABELS.items() if label["kind"] == "sound"}
    assert [one for one in found if one[1].partition("/")[0] in sound and not one[0].startswith(WAITS)] == []
