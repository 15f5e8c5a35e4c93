"""The programs among the modules of tests/scan/fresh10, on the simulated device: 13 with 25 faults, 7 are sound.

At first sight 17 of the faults were found at their line, and no sound program was accused. On an H200 without `--waits`
7 of the 16 that need no such option were found, and no sound program was accused. Of two faults another code or line is
now accepted: a device-wide wait is GS610, and a mode that a capture froze is told at the capture.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ValidReport
from tests.run.labelled import Programs

pytestmark = [pytest.mark.child, pytest.mark.slow]
PROGRAMS = Programs(Path(__file__).parents[1] / "scan" / "fresh10", "programs.json")
FOUND = 22


@pytest.fixture(scope="module")
def ledgers(tmp_path_factory: pytest.TempPathFactory, valid_report: ValidReport) -> dict[str, Any]:
    return PROGRAMS.ledgers(valid_report, tmp_path_factory.mktemp("ledgers"), "--device", "sim", together=1)


def test_no_sound_program_is_accused(ledgers: dict[str, Any]) -> None:
    assert PROGRAMS.accused(ledgers) == {}


def test_faults_are_found_at_their_lines(ledgers: dict[str, Any]) -> None:
    number, missed = PROGRAMS.missed(ledgers)
    assert number - len(missed) >= FOUND, missed
