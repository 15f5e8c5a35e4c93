"""What a target does to its process is told as the target's doing, and neither it nor a killed capture leaves files."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from graphsafe import api, cli
from graphsafe.capture.api import capture_all
from graphsafe.capture.request import BAD_REQUEST, INTERNAL, CaptureRequest
from graphsafe.config import Config

pytestmark = [
    pytest.mark.child,
    pytest.mark.skipif(sys.platform != "linux", reason="capture's processes are those of Linux"),
]
TARGETS = Path(__file__).parent / "targets"
FILE = TARGETS / "changes_process.py"
_AS_ROOT = {"root_directory": "the root directory", "user": "the user"}
_ANYBODY = {"file_size": "RLIMIT_FSIZE", "open_files": "RLIMIT_NOFILE"}


def test_a_target_that_changes_its_process_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    segments = f"graphsafe_test_{os.getpid()}"
    monkeypatch.setenv("GRAPHSAFE_TEST_SEGMENTS", segments)
    changes = _ANYBODY | (_AS_ROOT if os.geteuid() == 0 else {})
    names = [*changes, "forks", "shared_memory"]
    config = Config(root=TARGETS)
    reports = capture_all([CaptureRequest(f"{FILE}:{name}", config, devices=("sim:0",)) for name in names])
    for name, report in zip(names, reports, strict=True):
        assert [limit for limit in report.limits if limit.kind == INTERNAL] == []
        wrong = [limit.why for limit in report.limits if limit.kind == BAD_REQUEST]
        if name in changes:
            assert [why.partition(", ")[0] for why in wrong] == [f"the target changed {changes[name]} of its process"]
            assert report.verdict == "inconclusive"
        else:
            assert wrong == []
    assert reports[names.index("forks")].verdict == "ready"
    assert [name for name in os.listdir("/dev/shm") if name.startswith(segments)] == []


@pytest.mark.parametrize(
    "name",
    ["endless", *(pytest.param(name, marks=pytest.mark.slow) for name in ("nested", "pipe", "words", "no_table"))],
)
def test_a_target_that_replaces_its_answers_is_inconclusive(name: str, tmp_path: Path) -> None:
    file = TARGETS / "replaces_answers.py"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-m", "graphsafe", "capture", f"{file}:{name}", "--device", "sim", "--timeout", "30"]
    ended = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=90)
    assert ended.returncode == 2, ended.stderr
    report = json.loads((tmp_path / "graphsafe-report.json").read_text(encoding="utf-8"))
    assert report["verdict"] == "inconclusive"
    assert [limit["kind"] for limit in report["limits"] if limit["kind"] == INTERNAL] == []


def test_a_killed_capture_leaves_no_files(tmp_path: Path) -> None:
    """At any time: here while torch is imported, before there is any child."""
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-m", "graphsafe", "capture", f"{FILE}:forks", "--device", "sim"]
    capture = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL)
    _wait_until(lambda: any(tmp_path.glob("graphsafe-*")))
    time.sleep(0.2)  # the process that removes them is started after the folder is made
    capture.kill()
    capture.wait()
    _wait_until(lambda: not any(tmp_path.glob("graphsafe-*")))


def _wait_until(happens: Any) -> None:
    for _ in range(6000):
        if happens():
            return
        time.sleep(0.01)
    raise AssertionError("it did not happen in a minute")


def test_a_capture_that_is_interrupted_before_it_begins_has_its_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ask = api.capture_requests

    def interrupted(*arguments: Any, **options: Any) -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        return ask(*arguments, **options)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(api, "capture_requests", interrupted)
    assert cli.main(["capture", f"{FILE}:forks", "--device", "sim"]) == 130
    assert capsys.readouterr().err == "graphsafe: interrupted\n"
    report = json.loads(Path("graphsafe-report.json").read_text(encoding="utf-8"))
    assert report["verdict"] == "inconclusive"
    assert [limit["kind"] for limit in report["limits"]] == ["interrupted"]
