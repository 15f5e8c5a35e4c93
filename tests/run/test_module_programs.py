"""The programs among the modules of tests/scan/fresh10 and fresh11, on the simulated device.

Of fresh10, 13 have 25 faults and 7 are sound. At first sight 17 of the faults were found at their line. On an H200
without `--waits` 7 of the 16 that need no such option were found. Of two faults another code or line is now accepted: a
device-wide wait is GS610, and a mode that a capture froze is told at the capture.

Of fresh11, 14 have 29 faults and 7 are sound. At first sight 15 of the faults were found at their line, 13 on an H100.
Now 17 are: kept results are told where an object's method keeps them.

At first sight no sound program was accused, on any device.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ValidReport
from tests.run.labelled import Programs

pytestmark = [pytest.mark.child, pytest.mark.slow]
FOUND = {"fresh10": 22, "fresh11": 17}


@dataclass(frozen=True)
class Watched:
    programs: Programs
    ledgers: dict[str, Any]
    found: int


@pytest.fixture(scope="module", params=FOUND)
def watched(request: Any, tmp_path_factory: pytest.TempPathFactory, valid_report: ValidReport) -> Watched:
    programs = Programs(Path(__file__).parents[1] / "scan" / request.param, "programs.json")
    place = tmp_path_factory.mktemp("ledgers")
    return Watched(programs, programs.ledgers(valid_report, place, "--device", "sim", together=1), FOUND[request.param])


def test_no_sound_program_is_accused(watched: Watched) -> None:
    assert watched.programs.accused(watched.ledgers) == {}


def test_faults_are_found_at_their_lines(watched: Watched) -> None:
    number, missed = watched.programs.missed(watched.ledgers)
    assert number - len(missed) >= watched.found, missed
