"""What tests of every part share."""

from __future__ import annotations

import functools
import json
import os
import signal
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest

from graphsafe.report.schema import report_schema

# Test processes fill the cores; torch's own threads would wait for each other, spinning.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Whoever is started in the background is deaf to Ctrl-C, and so are its children, which tests interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

ValidReport = Callable[[str], Any]

_START_CHILDREN = {"command", "prove", "supervisor"}
"Fixtures that start children of capture."


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that start children of capture, and skip those that need a GPU where there is none."""
    for item in items:
        if _START_CHILDREN & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.child)
        if item.get_closest_marker("gpu") and not _has_gpu():
            item.add_marker(pytest.mark.skip(reason="needs a GPU"))


@functools.cache
def _has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()


@pytest.fixture(autouse=True)
def _only_marked_tests_start_children(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    def start(*_: Any) -> None:
        pytest.fail("a test that starts children of capture needs pytest.mark.child")

    if request.node.get_closest_marker("child") is None:
        monkeypatch.setattr("graphsafe.capture.parent.supervision.supervisor.Supervisor.start", start)


@pytest.fixture(scope="session")
def valid_report() -> ValidReport:
    """Parse a report's JSON text and hold it against the shipped schema."""
    validator = jsonschema.Draft202012Validator(report_schema())

    def parse(text: str) -> Any:
        report = json.loads(text)
        validator.validate(report)
        return report

    return parse
