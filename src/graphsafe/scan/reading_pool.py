"""Reads a project in several processes. The report is the same as with one process.

Each process has its own engine and reads some of the files and all code that their roots lead to. Each process reads
the code that it needs, even if others read it too. A process gets neighbouring files, since these share most of their
callees.
"""

from __future__ import annotations

import multiprocessing
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from typing import Any

from graphsafe.scan.deep_stack import run_deep
from graphsafe.scan.driver import Driver, learnt_together


def read_shared(driver: Driver, paths: Sequence[str], count: int, progress: Callable[[], None]) -> bool:
    """Read the files in `count` processes; `progress` is called for each file.

    Returns False, with nothing read, if the system cannot fork processes or a process was ended from outside.
    """
    if count <= 1 or sys.platform != "linux":
        # Elsewhere a new process does not inherit this process's data.
        return False
    try:
        with _processes(driver, count) as processes:
            _hand_out(paths, processes, progress)
            reached = frozenset[str]().union(*_answers(processes))
            _tell(processes, reached)
            _tell(processes, learnt_together(_answers(processes)))
            found = _answers(processes)
    except (EOFError, OSError):
        return False
    for _, files in found:
        driver.project.learn(files)
    driver.conclude([outcome for outcome, _ in found])
    return True


def _hand_out(paths: Sequence[str], processes: Sequence[Connection], progress: Callable[[], None]) -> None:
    """Give each process its own share file by file, and then files from the end of the largest remaining share."""
    size = len(paths) / len(processes)
    bounds = [round(number * size) for number in range(len(processes) + 1)]
    shares = {
        process: deque(paths[first:last])
        for process, first, last in zip(processes, bounds[:-1], bounds[1:], strict=True)
    }

    def give(process: Connection) -> bool:
        own = shares[process]
        largest = max(shares.values(), key=len)
        # The end of another process's share has the least in common with the files that this other process reads now.
        path = own.popleft() if own else largest.pop() if largest else None
        process.send(path)
        return path is not None

    busy = [process for process in processes if give(process)]
    while busy:
        for ready in wait(busy):
            assert isinstance(ready, Connection)
            ready.recv()
            progress()
            if not give(ready):
                busy.remove(ready)


def _answers(processes: Sequence[Connection]) -> list[Any]:
    return [process.recv() for process in processes]


def _tell(processes: Sequence[Connection], what: object) -> None:
    for process in processes:
        process.send(what)


@contextmanager
def _processes(driver: Driver, count: int) -> Iterator[list[Connection]]:
    """Start processes that inherit this process's data, and yield connections to them. They end with the context."""
    # Forking is safe here: graphsafe has started no thread yet.
    context = multiprocessing.get_context("fork")
    ends: list[Connection] = []
    started = []
    try:
        for _ in range(count):
            end, other = context.Pipe()
            ends.append(end)
            process = context.Process(target=_run, args=(driver, other, [*ends]), daemon=True)
            process.start()
            other.close()
            started.append(process)
        yield ends
    finally:
        for process in started:
            process.terminate()
            process.join()
        for end in ends:
            end.close()


def _run(driver: Driver, connection: Connection, others: Sequence[Connection]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for end in others:
        # An inherited copy of the connection would hide the end of the first process.
        end.close()
    # After any error the first process reads alone, and so reports the error itself.
    with suppress(Exception):
        run_deep(lambda: _serve(driver, connection))


def _serve(driver: Driver, connection: Connection) -> None:
    known = driver.project.files.indexes.keys() | ()
    while (path := connection.recv()) is not None:
        driver.read(path)
        connection.send(None)
    connection.send(driver.reached())
    driver.read_assumed(connection.recv())
    connection.send(driver.learnt())
    driver.read_again(connection.recv())
    outcome = driver.outcome()
    connection.send((outcome, driver.project.found(known)))
