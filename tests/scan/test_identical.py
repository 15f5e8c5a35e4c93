"""A scan says the same whatever went before it: other scans, killed ones, and what became of their cache."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_findings_do_not_depend_on_what_went_before(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("scan_identical", ROOT / "benchmarks" / "scan_identical.py")
    assert spec is not None and spec.loader is not None
    identical = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = identical
    spec.loader.exec_module(identical)

    project = identical.project_of(str(ROOT / "examples"), tmp_path)
    (_, expected), *others = identical.reports(project)
    assert expected["findings"]
    assert [what for what, report in others if report != expected] == []
