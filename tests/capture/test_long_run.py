"""`--replays N`: what grows, drifts and fails late."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from graphsafe.capture.growth import growth_of

from .conftest import DEVICES, TARGETS, Prove, Report, codes_of, probes_of

NAMES = ["sound", "leaking", "settling", "replaced", "dangling", "failing"]


@pytest.fixture(scope="module", params=DEVICES)
def report(request: pytest.FixtureRequest, prove: Prove) -> Callable[[str], Report]:
    found = prove([f"{TARGETS / 'long.py'}:{name}" for name in NAMES], request.param, replays=60)
    return dict(zip(NAMES, found, strict=True)).__getitem__


def growth(report: Report) -> dict[str, Any]:
    return dict(probes_of(report)["memory"]["growth"])


@pytest.mark.parametrize("name", ["sound", "settling"])
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
    assert finding["location"]["function"] == "stepped.fill"


@pytest.mark.parametrize("name", ["replaced", "dangling"])
def test_a_tensor_that_is_replaced_late_makes_the_replays_after_it_wrong(
    name: str, report: Callable[[str], Report]
) -> None:
    found = report(name)
    assert found["verdict"] == "not-ready"
    assert codes_of(found, "error") == ["GS704"]
    (drift,) = growth(found)["drifts"]
    assert drift["replay"] == 24  # the first point after it


def test_a_refresh_that_fails_late_ends_the_run_and_is_told(report: Callable[[str], Report]) -> None:
    found = report("failing")
    assert found["verdict"] == "ready"
    (limit,) = [limit for limit in found["limits"] if limit["kind"] == "long-run"]
    assert "after 29 replays" in limit["why"] and "no batch of this number" in limit["why"]


def test_what_keeps_growing() -> None:
    def points(*device: int, host: tuple[int, ...] = ()) -> list[dict[str, Any]]:
        hosts = host or (0,) * len(device)
        return [{"device_bytes": one, "host_bytes": two} for one, two in zip(device, hosts, strict=True)]

    assert growth_of(points(10, 20, 30, 40)).leaks == "device"
    assert growth_of(points(10, 40, 40, 40)).leaks is None
    assert growth_of(points(40, 30, 20, 10)).leaks is None
    mib = 1 << 20
    assert growth_of(points(0, 0, 0, host=(0, 1 * mib, 2 * mib))).leaks is None
    assert growth_of(points(0, 0, 0, host=(0, 20 * mib, 40 * mib))).leaks == "host"
    assert growth_of([]).leaks is None
