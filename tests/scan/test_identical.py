"""A scan says the same whatever went before it: other scans, killed ones, and what became of their cache."""

from __future__ import annotations

from pathlib import Path

import pytest

from .benchmark import ROOT, benchmark


@pytest.mark.child
@pytest.mark.slow
def test_findings_do_not_depend_on_what_went_before(tmp_path: Path) -> None:
    identical = benchmark("scan/identical_reports")
    project = identical.project_of(str(ROOT / "examples"), tmp_path)
    (_, expected), *others = identical.reports(project)
    assert expected["findings"]
    assert [what for what, report in others if report != expected] == []
