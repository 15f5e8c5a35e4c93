"""Races inside captured graphs, on the simulated device: a program with some, and with sound code like it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ValidReport
from tests.run.test_run import PROGRAMS, expected, ledger_in, run

pytestmark = pytest.mark.child


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory, valid_report: ValidReport) -> Any:
    folder = tmp_path_factory.mktemp("races")
    (folder / "races.py").write_text((PROGRAMS / "races.py").read_text(encoding="utf-8"), encoding="utf-8")
    ran = run(folder, "--", sys.executable, "races.py")
    assert ran.stdout == "done\n" and ran.returncode == 0, ran.stderr
    return ledger_in(folder, valid_report)


def test_every_race_is_named_with_its_line_and_no_sound_step(ledger: Any) -> None:
    found = {(finding["code"], finding["location"]["line"]) for finding in ledger["findings"]}
    assert found == expected(PROGRAMS / "races.py")


def test_a_race_names_the_other_operation_and_its_line(ledger: Any) -> None:
    finding = ledger["findings"][0]
    lines = Path(PROGRAMS / "races.py").read_text(encoding="utf-8").splitlines()
    write = next(number for number, line in enumerate(lines, 1) if "self.common.copy_" in line)
    assert finding["message"] == (
        f"`x + self.routed(x) + self.common` and aten::copy_ (races.py:{write}) access the same memory, and the graph "
        "does not order them"
    )
    assert finding["data"]["other"] == {"op": "aten::copy_", "path": "races.py", "line": write}
    assert finding["region"] == "captured" and finding["confidence"] == "likely" and finding["data"]["graph"] == "1"
