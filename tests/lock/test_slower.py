"""The gate's answer for a target that is only slower: each of several runs has to find it slower."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from graphsafe.capture.request import CaptureRequest
from graphsafe.commands.gate import Gate
from graphsafe.config import Config
from graphsafe.lock import file
from graphsafe.lock.proven import proven_by
from graphsafe.report.model import Report
from tests.lock.test_regressions import report

SLOW = report(graph_ms=0.9)


def passes(folder: Path, first: Report, *further: Report) -> tuple[dict[str, bool], int]:
    """Return the gate's answer, and how many further runs it took."""
    path = folder / file.NAME
    file.write(path, {"decode": proven_by(report())})
    left: Iterator[Report] = iter(further)
    taken = []

    def again(request: CaptureRequest) -> Report:
        taken.append(request)
        return next(left)

    request = CaptureRequest("model.py:build", Config(root=folder), name="decode")
    return Gate(path, is_updated=False, is_whole=True).passes([request], [first], again), len(taken)


def test_a_target_that_is_slower_once_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert passes(tmp_path, SLOW, report()) == ({"decode": True}, 1)
    assert passes(tmp_path, SLOW, SLOW, report()) == ({"decode": True}, 2)
    assert "0 regressions" in capsys.readouterr().err


def test_a_target_that_is_slower_each_time_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert passes(tmp_path, SLOW, SLOW, SLOW) == ({"decode": False}, 2)
    assert "a replay 0.5 ms (0.49 to 0.51) → 0.9 ms" in capsys.readouterr().err


def test_what_further_runs_find_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert passes(tmp_path, SLOW, report("not-ready")) == ({"decode": False}, 1)
    assert "ready → not-ready" in capsys.readouterr().err


def test_whatever_else_got_worse_needs_no_further_run(tmp_path: Path) -> None:
    assert passes(tmp_path, report(graph_ms=0.9, kernels=14)) == ({"decode": False}, 0)
    assert passes(tmp_path, report()) == ({"decode": True}, 0)
