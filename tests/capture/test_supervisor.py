"""The parent and its children: what the parent never does, both ways to start a child, and how each may end."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from graphsafe.capture.parent.supervision.device_use import DeviceStay, DeviceUse
from graphsafe.capture.parent.supervision.servers import Server, SharedServers
from graphsafe.capture.parent.supervision.supervisor import Supervisor
from graphsafe.capture.shared.job import WAITS_ALONE, Job
from graphsafe.report.probes.construct import Construct
from graphsafe.report.probes.memory import Memory

from .conftest import TARGETS

FORMS, BAD = TARGETS / "forms.py", TARGETS / "bad.py"


@pytest.fixture(params=["forked", pytest.param("spawned", marks=pytest.mark.slow)])
def supervisor(request: pytest.FixtureRequest, tmp_path: Path, torch_server: Server | None) -> Iterator[Supervisor]:
    if request.param == "forked" and sys.platform != "linux":
        pytest.skip("children fork on Linux only")
    with SharedServers(str(tmp_path), torch_server) as servers, Supervisor(servers) as supervisor:
        if request.param == "spawned":
            supervisor.use_fresh_interpreters()
        yield supervisor


@pytest.mark.parametrize("supervisor", ["forked" if sys.platform == "linux" else "spawned"], indirect=True)
@pytest.mark.parametrize("alone", [False, True])
def test_a_child_measures_when_it_has_its_device_alone(
    alone: bool, supervisor: Supervisor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a GPU: `alone` is one that ran out of memory beside others, and waited for that before it began."""
    devices = DeviceUse()
    stay, other = (DeviceStay("cuda:0", owner, None, None) for owner in (supervisor, "another target"))
    assert alone or devices.enter(other)
    stay.alone = alone
    assert devices.enter(stay)
    monkeypatch.setattr(supervisor, "_devices", devices)
    monkeypatch.setattr(supervisor, "_enter", lambda child, alone: stay)
    child = supervisor.start(Job("measure", str(tmp_path), f"{FORMS}:with_args", "sim:0"))
    if not alone:
        while child.phase != WAITS_ALONE:
            supervisor._listen()
        supervisor._listen()
        assert Memory not in child.answers and child.end is None
        devices.leave(other)
    supervisor.timeout = 60.0
    supervisor.wait([child])
    assert child.ended.how == "done" and Memory in child.answers


def test_children_end_in_every_way(supervisor: Supervisor, tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("built", "died", "hung")]
    for folder in folders:
        folder.mkdir()
    built, died, hung = (
        Job("build", str(folder), f"{file}:{factory}", "sim:0")
        for folder, (file, factory) in zip(
            folders, [(FORMS, "with_args"), (BAD, "step_segfaults"), (BAD, "step_hangs")], strict=True
        )
    )
    children = [supervisor.start(job) for job in (built, died)]
    supervisor.wait(children)
    assert [child.ended.how for child in children] == ["done", "crashed"]
    assert Construct in children[0].answers
    assert "SIGSEGV" in children[1].ended.why
    supervisor.timeout = 15.0 if supervisor._fresh else 6.0  # a fresh interpreter imports torch first
    slow = supervisor.run(hung)
    assert slow.ended.how == "timeout"
    assert slow.phase == "try the step's own inputs"
    assert slow.pid is not None and slow.status == -9


def test_output_is_kept_from_its_end_and_bounded(supervisor: Supervisor, tmp_path: Path) -> None:
    child = supervisor.run(Job("build", str(tmp_path), f"{BAD}:prints", "sim:0"))
    assert child.ended.how == "done"
    assert 0 < len(child.last_lines(1)[0]) <= 400
    assert len(bytes(child._output)) <= 256 * 1024


@pytest.mark.child
def test_the_parent_imports_neither_torch_nor_the_target(tmp_path: Path) -> None:
    code = f"""
import sys
from pathlib import Path
from graphsafe.capture.api import capture_target
from graphsafe.capture.request import CaptureRequest
from graphsafe.config import Config

config = Config(root=Path({str(TARGETS)!r}))
report = capture_target(CaptureRequest({f"{FORMS}:with_args"!r}, config, devices=("sim",)))
print(report.verdict, "torch" in sys.modules, "forms" in sys.modules)
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["ready", "False", "False"]
