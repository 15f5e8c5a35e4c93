"""On the simulated device: host memory that a graph copies from is written again only after a wait, a result is read
only until its graph's next replay, and a storage that a graph uses is not resized."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.conftest import ValidReport
from tests.run.test_run import PROGRAMS, expected, ledger_in, run

pytestmark = pytest.mark.child


@pytest.mark.parametrize(
    "name", ["resized.py", *(pytest.param(name, marks=pytest.mark.slow) for name in ("host.py", "results.py"))]
)
def test_faulty_lines_are_told_and_no_others(tmp_path: Path, name: str, valid_report: ValidReport) -> None:
    path = PROGRAMS / name
    ran = run(tmp_path, "--", sys.executable, str(path))
    assert ran.stdout == "done\n" and ran.returncode == 0, ran.stderr
    ledger = ledger_in(tmp_path, valid_report)
    found = [(one["code"], one["location"]["line"]) for one in ledger["findings"]]
    assert sorted(found) == sorted(expected(path))
    assert not [limit for limit in ledger["limits"] if limit["kind"] == "internal"]
