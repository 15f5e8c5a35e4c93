"""scan --watch: a scan after every change, until Ctrl-C."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import graphsafe
from graphsafe import cli
from graphsafe.scan_request.watch import state_of, wait_for_change

pytestmark = pytest.mark.child

HOT = """\
import torch
from torch import nn


class Step(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * x.sum().item()
"""


@pytest.mark.skipif(os.name == "nt", reason="sends a signal")
def test_it_scans_again_after_a_change_and_ends_with_ctrl_c(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.graphsafe]\n", encoding="utf-8")
    (tmp_path / "hot.py").write_text(HOT, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(Path(graphsafe.__file__).parents[1]), "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", "graphsafe", "scan", "--watch", "--format", "concise"],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    said: queue.Queue[str] = queue.Queue()
    assert process.stdout is not None
    threading.Thread(target=lambda: [said.put(line) for line in process.stdout or ()], daemon=True).start()

    def until_waiting() -> str:
        text = ""
        while "waiting for changes" not in text:
            text += said.get(timeout=60)
        return text

    try:
        assert "GS101" in until_waiting()
        (tmp_path / "hot.py").write_text(HOT.replace(".item()", ""), encoding="utf-8")
        assert "GS101" not in until_waiting()
        (tmp_path / "more.py").write_text(HOT, encoding="utf-8")
        assert "more.py:7" in until_waiting()
        (tmp_path / "pyproject.toml").write_text('[tool.graphsafe]\nignore = ["GS1"]\n', encoding="utf-8")
        assert "GS101" not in until_waiting()
    finally:
        os.killpg(process.pid, signal.SIGINT)
    assert process.wait(timeout=60) == 0


def test_with_quiet_it_does_not_say_that_it_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def ended(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: None)
    monkeypatch.setattr("graphsafe.scan_request.watch.wait_for_change", ended)
    for options in ([], ["-q"]):
        assert cli.main(["scan", "--watch", *options]) == 0
        assert ("waiting for changes" in capsys.readouterr().err) == (not options)


def test_a_file_that_is_being_written_is_waited_for(tmp_path: Path) -> None:
    before = state_of([tmp_path])

    def write() -> None:
        for size in range(1, 5):
            time.sleep(0.2)
            (tmp_path / "a.py").write_text("#" * size, encoding="utf-8")

    threading.Thread(target=write).start()
    ((_, size),) = wait_for_change([tmp_path], before).values()
    assert size == 4


def test_what_a_scan_does_not_read_counts_for_nothing(tmp_path: Path) -> None:
    for name in (".graphsafe_cache", ".git", ".venv"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.py").touch()
    (tmp_path / "notes.txt").touch()
    assert state_of([tmp_path]) == {}
    (tmp_path / "a.py").touch()
    assert state_of([tmp_path, tmp_path / "none"]).keys() == {str(tmp_path / "a.py")}


@pytest.mark.parametrize("option", ["--fix", "--write-baseline", "--add-ignore=x"])
def test_it_never_changes_files(option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["scan", "--watch", option]) == 2
