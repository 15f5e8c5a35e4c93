"""`--replays N`: what grows, drifts and fails late."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from graphsafe.capture.answers.probes import Point
from graphsafe.capture.child.long_run import long_run
from graphsafe.capture.child.session import Session, opened
from graphsafe.capture.parent.growth import growth_of
from graphsafe.capture.shared.job import Channel, Job

from .conftest import DEVICES, TARGETS, Prove, Report, Reports, marked, probes_of

NAMES = ["sound", "leaking", "settling", "replaced", "dangling", "failing"]
SLOW = ("settling", "dangling")


@pytest.fixture(scope="module", params=DEVICES)
def report(request: pytest.FixtureRequest, prove: Prove) -> Callable[[str], Report]:
    return Reports(prove, f"{TARGETS / 'long.py'}:", request.param, NAMES, SLOW, replays=60).__getitem__


def growth(report: Report) -> dict[str, Any]:
    return dict(probes_of(report)["memory"]["growth"])


@pytest.mark.parametrize("name", marked(["sound", "settling"], SLOW))
def test_what_settles_does_not_leak(name: str, report: Callable[[str], Report]) -> None:
    found = report(name)
    assert found["verdict"] == "ready"
    assert found["findings"] == []
    assert growth(found)["leaks"] is None
    assert growth(found)["drifts"] == []


def test_a_refresh_that_keeps_memory_leaks(report: Callable[[str], Report]) -> None:
    found = report("leaking")
    assert growth(found)["leaks"] == "device"
    assert growth(found)["bytes"] >= 50 * 4096
    (finding,) = found["findings"]
    assert (finding["code"], finding["level"]) == ("GS402", "warning")
    lines = (TARGETS / "long.py").read_text(encoding="utf-8").splitlines()
    assert "module.kept.append(torch.zeros(1024" in lines[finding["location"]["line"] - 1]
    assert growth(found)["keeping"][0]["bytes"] == 4096


@pytest.mark.parametrize("name", marked(["replaced", "dangling"], SLOW))
def test_a_tensor_that_is_replaced_late_makes_the_replays_after_it_wrong(
    name: str, report: Callable[[str], Report]
) -> None:
    found = report(name)
    assert found["verdict"] == "not-ready"
    (finding,) = [one for one in found["findings"] if one["level"] == "error"]
    assert (finding["code"], finding["location"]["function"]) == ("GS707", "stepped.fill")
    assert finding["data"]["attribute"] == "table"
    (drift,) = growth(found)["drifts"]
    assert drift["replay"] == 24  # the first point after it


def test_a_refresh_that_fails_late_ends_the_run_and_is_told(report: Callable[[str], Report]) -> None:
    found = report("failing")
    assert found["verdict"] == "ready"
    (limit,) = [limit for limit in found["limits"] if limit["kind"] == "long-run"]
    assert "after 29 replays" in limit["why"] and "no batch of this number" in limit["why"]


def test_what_keeps_growing() -> None:
    def points(*device: int, host: tuple[int, ...] = (), step: tuple[float | None, ...] = ()) -> list[Point]:
        rows = zip(device, host or (0,) * len(device), step or (None,) * len(device), strict=True)
        return [Point(0, one, 0, two, None, ms) for one, two, ms in rows]

    assert growth_of(points(10, 20, 30, 40)).leaks == "device"
    assert growth_of(points(10, 40, 40, 40)).leaks is None
    assert growth_of(points(40, 30, 20, 10)).leaks is None
    mib = 1 << 20
    assert growth_of(points(0, 0, 0, host=(0, 1 * mib, 2 * mib))).leaks is None
    assert growth_of(points(0, 0, 0, host=(0, 20 * mib, 40 * mib))).leaks == "host"
    assert growth_of([]).leaks is None
    assert growth_of(points(0, 0, 0, 0, step=(1.0, 1.3, 1.5, 1.8))).slows is True
    assert growth_of(points(0, 0, 0, 0, step=(1.0, 1.1, 1.2, 1.3))).slows is False
    assert growth_of(points(0, 0, 0, 0, step=(1.0, 3.0, 1.0, 1.8))).slows is False
    assert growth_of(points(0, 0)).slows is None


class Glitch:
    """A recording whose replay of this number, and no other, gives something else."""

    def __init__(self, recording: Any, number: int) -> None:
        self.outputs = recording.outputs
        self._recording = recording
        self._left = number

    def replay(self) -> None:
        self._recording.replay()
        self._left -= 1
        if self._left == 0:
            self.outputs.add_(1)

    def pool_bytes(self) -> int | None:
        return None


@contextmanager
def recorded(folder: Path, name: str) -> Iterator[tuple[Session, Any]]:
    """Yield a session of a target in long.py, and a recording of its step."""
    job = Job("measure", str(folder), f"{TARGETS / 'long.py'}:{name}", "sim:0")
    with opened(job, Channel(job)) as session:
        with session.device.capture_stream():
            session.warm_up()
        yield session, session.device.record(session.subject)


@pytest.mark.slow
@pytest.mark.child
def test_each_replay_is_compared_where_inputs_come_back(tmp_path: Path) -> None:
    with recorded(tmp_path, "cycling") as (session, recording):
        sound = long_run(session, recording, 40).growth
        # One replay before the run, and one more for each look, after 4 and 8: the twelfth.
        told = long_run(session, Glitch(recording, 1 + 12 + 2), 40).growth  # type: ignore[arg-type]
    assert (sound.compared, sound.drifts) == (40, ())
    (drift,) = told.drifts
    assert (drift.replay, drift.max_abs) == (12, pytest.approx(1.0))


@pytest.mark.child
def test_state_that_replays_train_at_another_rate_than_eager_steps_is_told(tmp_path: Path) -> None:
    with recorded(tmp_path, "slower") as (session, recording):
        told = long_run(session, recording, 40).growth
    assert {(one.output, one.replay) for one in told.drifts} == {("state model.weight", 20), ("state model.bias", 20)}
