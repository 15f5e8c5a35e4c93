"""Twenty-eight programs by an author who had not seen the code, on the simulated device: 14 are sound.

At first sight 7 of the 14 faults were found at their line, and no sound program was accused. On an H200 without
`--waits` 4 of them were found, and one sound program was accused (GS616).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ValidReport
from tests.run.labelled import Programs

pytestmark = [pytest.mark.child, pytest.mark.slow]
PROGRAMS = Programs(Path(__file__).parent / "fresh9")
FOUND = 12


@pytest.fixture(scope="module")
def ledgers(tmp_path_factory: pytest.TempPathFactory, valid_report: ValidReport) -> dict[str, Any]:
    return PROGRAMS.ledgers(valid_report, tmp_path_factory.mktemp("ledgers"), "--device", "sim", together=1)


def test_no_sound_program_is_accused(ledgers: dict[str, Any]) -> None:
    assert PROGRAMS.accused(ledgers) == {}


def test_faults_are_found_at_their_lines(ledgers: dict[str, Any]) -> None:
    number, missed = PROGRAMS.missed(ledgers)
    assert number - len(missed) >= FOUND, missed
