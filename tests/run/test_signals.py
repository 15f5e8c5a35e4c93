"""The program gets a signal once: sent to graphsafe alone, to its whole process group, or typed in a terminal."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytestmark = pytest.mark.child
COUNTING = """
import signal, time
heard = []
def note(number, _):
    heard.append(signal.Signals(number).name)
    print("heard", flush=True)
for name in ("SIGINT", "SIGTERM", "SIGHUP"):
    signal.signal(getattr(signal, name), note)
print("up", flush=True)
while not heard:
    time.sleep(0.01)
time.sleep(1)
print(*heard, flush=True)
"""
COMMAND = [sys.executable, "-m", "graphsafe", "run", "--device", "sim", "--", sys.executable, "-c"]
NUMBERS = [signal.SIGTERM, *(pytest.param(one, marks=pytest.mark.slow) for one in (signal.SIGINT, signal.SIGHUP))]


@contextmanager
def counting(folder: Path, program: str = COUNTING) -> Iterator[subprocess.Popen[str]]:
    command = [*COMMAND, program]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "up\n"
        yield process


@pytest.mark.parametrize("number", NUMBERS)
def test_a_signal_to_the_group_reaches_the_program_once(tmp_path: Path, number: signal.Signals) -> None:
    with counting(tmp_path) as process:
        os.killpg(process.pid, number)
        assert process.communicate(timeout=60)[0] == f"heard\n{number.name}\n"
    assert process.returncode == 0 and (tmp_path / "graphsafe-ledger.json").exists()


@pytest.mark.parametrize("number", NUMBERS)
def test_a_signal_to_graphsafe_alone_is_passed_on(tmp_path: Path, number: signal.Signals) -> None:
    with counting(tmp_path) as process:
        process.send_signal(number)
        assert process.communicate(timeout=60)[0] == f"heard\n{number.name}\n"
    assert process.returncode == 0


def test_a_signal_to_each_process_reaches_the_program_once(tmp_path: Path) -> None:
    """So does a service manager end a service."""
    with counting(tmp_path) as process:
        listed = subprocess.run(
            ["ps", "-o", "pid=", "-s", str(process.pid)], capture_output=True, text=True, check=True
        )
        for pid in map(int, listed.stdout.split()):
            os.kill(pid, signal.SIGTERM)
        assert process.communicate(timeout=60)[0] == "heard\nSIGTERM\n"


def test_a_signal_to_a_stopped_job_reaches_the_program_once_it_goes_on(tmp_path: Path) -> None:
    with counting(tmp_path) as process:
        for number in (signal.SIGSTOP, signal.SIGTERM):
            os.killpg(process.pid, number)
        time.sleep(1)
        os.killpg(process.pid, signal.SIGCONT)
        assert process.communicate(timeout=60)[0] == "heard\nSIGTERM\n"


def test_signals_to_the_group_and_to_graphsafe_alone_are_told_apart_one_after_the_other(tmp_path: Path) -> None:
    program = COUNTING.replace("not heard", "len(heard) < 3")
    with counting(tmp_path, program) as process:
        assert process.stdout is not None
        for send in (process.send_signal, lambda number: os.killpg(process.pid, number), process.send_signal):
            send(signal.SIGINT)
            assert process.stdout.readline() == "heard\n"
            time.sleep(1)
        assert process.communicate(timeout=60)[0] == "SIGINT SIGINT SIGINT\n"


@pytest.mark.parametrize("alone", [False, True])
def test_in_a_terminal(tmp_path: Path, alone: bool) -> None:
    """Ctrl-C, and a signal to graphsafe alone while a terminal is there."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(tmp_path)
        os.execv(sys.executable, [*COMMAND, COUNTING])
    try:
        shown = b""
        while b"up" not in shown:
            shown += os.read(terminal, 4096)
        if alone:
            os.kill(pid, signal.SIGINT)
        else:
            os.write(terminal, b"\x03")
        while b"SIGINT\r\n" not in shown:
            shown += os.read(terminal, 4096)
        assert shown.count(b"heard") == 1 and b" SIGINT" not in shown
    finally:
        os.close(terminal)
        os.waitpid(pid, 0)
