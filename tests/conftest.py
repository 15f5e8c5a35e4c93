"""Fixtures and settings that the tests of all parts share."""

from __future__ import annotations

import functools
import gc
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from graphsafe.report.schema import report_schema

if TYPE_CHECKING:
    from graphsafe.capture.parent.supervision.servers import Server, SharedServers

# The test processes use all cores. If torch also had several threads, they would spin while they wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# A process that is started in the background ignores Ctrl-C, and so do its children, which tests interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

ValidReport = Callable[[str], Any]

_START_CHILDREN = {"command", "prove", "supervisor"}
"Fixtures that start the child processes of a capture."


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that start the child processes of a capture, and run them first. Without a GPU, skip tests that
    need one."""
    for item in items:
        if _START_CHILDREN & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.child)
        if item.get_closest_marker("gpu") and not _has_gpu():
            item.add_marker(pytest.mark.skip(reason="needs a GPU"))
    # Files that start children take longest: with them first, the test processes end together.
    items.sort(key=lambda item: item.get_closest_marker("child") is None)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Keep imported objects out of garbage collection: PyTorch alone has half a million objects."""
    gc.collect()
    gc.freeze()


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


@pytest.fixture(autouse=True)
def _torch_is_left_as_it_was(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that leaves a setting of PyTorch changed, because a later test in the same process could fail."""
    before = _torch_settings()
    yield
    if before is not None:
        assert _torch_settings() == before, f"{request.node.name} leaves settings of PyTorch changed"


def _torch_settings() -> tuple[Any, ...] | None:
    torch: Any = sys.modules.get("torch")
    if not hasattr(torch, "is_autocast_enabled"):
        return None
    autocast = torch.is_autocast_enabled("cpu"), torch.is_autocast_enabled("cuda")
    return *autocast, torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.get_default_dtype()


@pytest.fixture(scope="session")
def torch_server() -> Iterator[Server | None]:
    """Start a process that imports torch once, because this takes seconds. The value is None on systems that cannot
    fork."""
    from graphsafe.capture.api import kept_server

    with kept_server() as server:
        yield server


@pytest.fixture(autouse=True)
def _captures_fork_from_one_process(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let captures of this process import torch once for all tests.

    The children are forked anew for each capture, so nothing passes from one capture to the next. If the environment
    has changed since the common server began, or if the common server has died, a capture has its own server, as it has
    for users. A command that a test starts as a process imports torch itself.
    """
    if request.node.get_closest_marker("child") is None:
        return
    from graphsafe.capture import api

    own = api.SharedServers

    def shared(folder: str, kept: Server | None = None) -> SharedServers:
        if kept is None and _environment() == _ENVIRONMENT:
            kept = request.getfixturevalue("torch_server")
        if kept is not None:
            kept.messages()  # among them its end
        return own(folder, None if kept is None or kept.gone else kept)

    monkeypatch.setattr(api, "SharedServers", shared)


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}


_ENVIRONMENT = _environment()


@pytest.fixture(scope="session")
def valid_report() -> ValidReport:
    """Parse a report's JSON text and validate it against the shipped schema."""
    validator = jsonschema.Draft202012Validator(report_schema())

    def parse(text: str) -> Any:
        report = json.loads(text)
        validator.validate(report)
        return report

    return parse
