"""Seven sets of small programs by authors who had not seen the code, under `graphsafe run` on a GPU.

In each set half of the programs hold planted faults, and each has a twin without. docs/accuracy/run.md has the figures.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ValidReport
from tests.run.labelled import Programs

pytestmark = pytest.mark.gpu

RUN = Path(__file__).parents[1] / "run"
SETS = {"fresh2": 29, "fresh3": 25, "fresh4": 22, "fresh5": 12, "fresh6": 14, "fresh7": 15, "fresh10": 20}
"""Folder -> the faults that are found at least.

In fresh4, `pinned_features_a.py` is found only if the GPU still reads the page when the host overwrites it: on an idle
H200 in one run of three.
"""
TOGETHER = 5


@pytest.fixture(scope="module", params=SETS)
def programs(request: pytest.FixtureRequest) -> Programs:
    if request.param == "fresh10":
        return Programs(RUN.parent / "scan" / "fresh10", "programs.json")
    return Programs(RUN / request.param)


@pytest.fixture(scope="module")
def ledgers(programs: Programs, tmp_path_factory: pytest.TempPathFactory, valid_report: ValidReport) -> dict[str, Any]:
    return programs.ledgers(valid_report, tmp_path_factory.mktemp("ledgers"), together=TOGETHER)


def test_no_sound_program_is_accused(programs: Programs, ledgers: dict[str, Any]) -> None:
    assert programs.accused(ledgers) == {}


def test_faults_are_found_at_their_lines(programs: Programs, ledgers: dict[str, Any]) -> None:
    number, missed = programs.missed(ledgers)
    print(f"{programs.folder.name}: {number - len(missed)} of {number}; missed: {missed}")
    assert number - len(missed) >= SETS[programs.folder.name], missed


def test_every_capture_and_replay_is_counted(programs: Programs, ledgers: dict[str, Any]) -> None:
    for name, label in programs.labels.items():
        graphs = [graph for process in ledgers[name]["processes"] for graph in process["graphs"]]
        counted = len(graphs), sum(graph["replays"] for graph in graphs)
        assert "graphs" not in label or counted == (label["graphs"], label["replays"]), name
