"""Pinned host memory that a graph copies from, on the simulated device: it may be written again only after a wait."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.conftest import ValidReport
from tests.run.test_run import PROGRAMS, expected, ledger_in, run

pytestmark = pytest.mark.child


def test_host_memory_written_without_a_wait_is_told_and_no_other(tmp_path: Path, valid_report: ValidReport) -> None:
    path = PROGRAMS / "host.py"
    ran = run(tmp_path, "--", sys.executable, str(path))
    assert ran.stdout == "done\n" and ran.returncode == 0, ran.stderr
    found = [(one["code"], one["location"]["line"]) for one in ledger_in(tmp_path, valid_report)["findings"]]
    assert sorted(found) == sorted(expected(path))
