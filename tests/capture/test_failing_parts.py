"""A refresh, a reset or an event that raises is a wrong request, told with the part, its line and the exception."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import TARGETS, Answer, Prove
from .targets.failing_parts import FAILS

FILE = TARGETS / "failing_parts.py"
pytestmark = pytest.mark.child


def test_a_part_that_fails_eagerly_is_a_wrong_request(tmp_path: Path, command: Callable[..., Answer]) -> None:
    names = list(FAILS)
    rows = [f'[targets.{name}]\nfactory = "failing_parts.py:{name}"\ndevice = "sim"\n' for name in names]
    (tmp_path / "graphsafe.toml").write_text("\n".join(rows))
    (tmp_path / "failing_parts.py").write_text(FILE.read_text())
    answer = command("--all", "--format", "concise")
    assert answer.code == 2 and answer.report is not None
    for name, report in zip(names, answer.report["reports"], strict=True):
        assert report["verdict"] == "inconclusive" and report["findings"] == []
        [limit] = [limit for limit in report["limits"] if limit["kind"] == "bad-request"]
        assert FAILS[name] in limit["why"]
        assert f"graphsafe: {name}: {limit['what']}: {limit['why']}\n" in answer.err


def test_the_headline_names_what_failed(tmp_path: Path, command: Callable[..., Answer]) -> None:
    answer = command(f"{FILE}:event", "--device", "sim")
    assert answer.code == 2
    assert "sim:0: inconclusive: the event 'reload' failed: KeyError: 'weights.pt'" in answer.out
    assert answer.report is not None
    checks = answer.report["devices"][0]["probes"]["replay"]["checks"]
    assert {"output after sound": "equal"}.items() <= {one["name"]: one["result"] for one in checks}.items()


@pytest.mark.parametrize(
    ("name", "verdict"),
    [("event_in_capture", "inconclusive"), pytest.param("not_ready", "not-ready", marks=pytest.mark.slow)],
)
def test_what_may_fail_under_capture_only_is_no_wrong_request(name: str, verdict: str, prove: Prove) -> None:
    (report,) = prove([f"{FILE}:{name}"], "sim:0")
    assert report["verdict"] == verdict
    kinds = {limit["kind"]: limit["why"] for limit in report["limits"]}
    assert "bad-request" not in kinds
    expected = {"event_in_capture": "a graph holds the weights", "not_ready": "refresh failed: ZeroDivisionError"}
    assert expected[name] in kinds["reference"]
