"""Streams that use parts of one buffer, on the simulated device: only parts that share memory need an order."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.conftest import ValidReport
from tests.run.test_run import PROGRAMS, expected, ledger_in, run

pytestmark = pytest.mark.child


def test_only_parts_that_share_memory_are_reported(tmp_path: Path, valid_report: ValidReport) -> None:
    program = tmp_path / "parts.py"
    program.write_text((PROGRAMS / "parts.py").read_text(encoding="utf-8"), encoding="utf-8")
    ran = run(tmp_path, "--", sys.executable, program.name)
    assert ran.stdout == "done\n" and ran.returncode == 0, ran.stderr
    ledger = ledger_in(tmp_path, valid_report)
    assert {(one["code"], one["location"]["line"]) for one in ledger["findings"]} == expected(PROGRAMS / "parts.py")
    assert not [limit for limit in ledger["limits"] if limit["kind"] == "internal"]
