from __future__ import annotations

from collections.abc import Callable

import pytest

from graphsafe.capture.device.protocol import StepEvent
from graphsafe.capture.device.sim import SimDevice
from graphsafe.optable import OpTable
from graphsafe.rulebook import load_rulebook


@pytest.fixture(scope="session")
def table() -> OpTable:
    return load_rulebook().ops


@pytest.fixture
def sim(table: OpTable) -> SimDevice:
    """The second of two devices: a literal `"cuda"` means the first."""
    return SimDevice(1, table, count=2)


@pytest.fixture
def seen(sim: SimDevice) -> Callable[[Callable[[], object]], list[StepEvent]]:
    """What a call does, as the step probe is told."""

    def watch(step: Callable[[], object]) -> list[StepEvent]:
        events: list[StepEvent] = []
        with sim.watch(events.append):
            step()
        return events

    return watch
