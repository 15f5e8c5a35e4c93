from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from graphsafe.capture.answers.events import StepEvent
from graphsafe.capture.device.sim import SimDevice
from graphsafe.optable import OpTable


@pytest.fixture(scope="session")
def table() -> OpTable:
    return OpTable(Path(__file__).parents[3] / "rules" / "ops")


@pytest.fixture
def sim(table: OpTable) -> SimDevice:
    """The second of two devices."""
    return SimDevice(1, table)


@pytest.fixture
def seen(sim: SimDevice) -> Callable[[Callable[[], object]], list[StepEvent]]:
    """What a call does, as the step probe is told."""

    def watch(step: Callable[[], object]) -> list[StepEvent]:
        events: list[StepEvent] = []
        with sim.watch(events.append):
            step()
        return events

    return watch


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """The tensors are tiny: threads would only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
