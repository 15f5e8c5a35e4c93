"""`capture --all`: targets side by side, each answered whatever becomes of the others, and a summary by name."""

from __future__ import annotations

import json
import os
import signal
import threading
from pathlib import Path

import pytest

from graphsafe.capture import api
from graphsafe.cli import main

from .conftest import TARGETS

pytestmark = pytest.mark.child

FORMS, BAD = TARGETS / "forms.py", TARGETS / "bad.py"


@pytest.fixture(autouse=True)
def side_by_side(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whatever machine this is, and in an empty folder."""
    monkeypatch.setattr(api, "at_a_time", lambda: 3)
    monkeypatch.chdir(tmp_path)


def configure(**targets: str) -> None:
    Path("graphsafe.toml").write_text(
        "".join(f'[targets.{name}]\nfactory = "{factory}"\ndevice = "sim"\n' for name, factory in targets.items())
    )


def test_every_target_is_answered_and_named_in_a_summary(capsys: pytest.CaptureFixture[str]) -> None:
    configure(
        plain=f"{FORMS}:with_args",
        broken=f"{BAD}:raises",
        missing=f"{BAD}:nowhere",
        crashing=f"{BAD}:step_segfaults",
        stepped=f"{FORMS}:with_step",
    )
    assert main(["capture", "--all"]) == 2
    out, err = capsys.readouterr()
    rows = [line.split() for line in out.splitlines()[-5:]]
    assert [(row[0], row[1]) for row in rows] == [
        ("plain", "ready"),
        ("broken", "inconclusive"),
        ("missing", "inconclusive"),
        ("crashing", "inconclusive"),
        ("stepped", "ready"),
    ]
    assert [float(row[2]) > 0 for row in rows] == [True, True, False, True, True]
    assert len(err.splitlines()) == 3
    reports = json.loads(Path("graphsafe-report.json").read_text())["reports"]
    assert [report["verdict"] for report in reports] == [row[1] for row in rows]
    timing = reports[0]["devices"][0]["probes"]["timing"]
    assert set(timing["children"]) == {"build", "step", "reference", "capture"}
    for child, spent in timing["spent"].items():
        assert sum(spent.values()) == pytest.approx(timing["children"][child], abs=0.1)
        assert set(spent) <= {"start", "import", "build", "steps", "wait"}
    assert max(timing["children"].values()) <= timing["seconds"]


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="signals")
def test_ctrl_c_ends_all_targets_and_reports_each(capsys: pytest.CaptureFixture[str]) -> None:
    configure(one=f"{BAD}:step_hangs", two=f"{BAD}:step_hangs", three=f"{BAD}:step_hangs", four=f"{FORMS}:with_args")
    threading.Timer(12.0, os.kill, (os.getpid(), signal.SIGINT)).start()
    assert main(["capture", "--all"]) == 130
    assert capsys.readouterr().err.strip() == "graphsafe: interrupted"
    reports = json.loads(Path("graphsafe-report.json").read_text())["reports"]
    assert [[limit["kind"] for limit in report["limits"]] for report in reports] == [["interrupted"]] * 4
