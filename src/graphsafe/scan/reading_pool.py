"""Reads a project in several processes. The report is the same as with one process.

Each process has its own engine. It gets files and steps one by one, and sends back the steps that these lead to, so
that each step is taken once. Each process reads the callees that its steps need. A process gets neighbouring files and
the steps that it found itself, since these share most of their callees. It gets other work only when it has none of its
own.
"""

from __future__ import annotations

import multiprocessing
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from multiprocessing.connection import Connection, wait
from typing import Any

from graphsafe.scan.deep_stack import run_deep
from graphsafe.scan.driver import Driver, Step
from graphsafe.scan.learnt import learnt_together


def read_shared(driver: Driver, paths: Sequence[str], count: int, progress: Callable[[], None]) -> bool:
    """Read the files in `count` processes; `progress` is called for each file.

    Returns False, with nothing read, if the system cannot fork processes or if a process was killed from outside.
    """
    if count <= 1 or sys.platform != "linux":
        # Elsewhere a new process does not inherit this process's data.
        return False
    try:
        with _processes(driver, count) as processes:
            size = len(paths) / count
            bounds = [round(number * size) for number in range(count + 1)]
            seen: set[Step] = set()
            _hand_out(processes, [paths[first:last] for first, last in pairwise(bounds)], seen, progress)
            _tell(processes, frozenset[str]().union(*_answers(processes)))
            _hand_out(processes, _answers(processes), seen, progress)
            _tell(processes, learnt_together(_answers(processes)))
            _hand_out(processes, _answers(processes), seen, progress)
            found = _answers(processes)
    except (EOFError, OSError):
        return False
    for _, files in found:
        driver.project.learn(files)
    driver.conclude([outcome for outcome, _ in found])
    return True


def _hand_out(
    processes: Sequence[Connection],
    shares: Sequence[Sequence[str | Step]],
    seen: set[Step],
    progress: Callable[[], None],
) -> None:
    """Give each process its own share one by one, and then work from the end of the largest share, until everything is
    done.

    `seen` holds the steps that some process has taken or will take.
    """
    queues: dict[Connection, deque[str | Step]] = {process: deque() for process in processes}

    def add(process: Connection, found: Sequence[str | Step]) -> None:
        for item in found:
            if isinstance(item, str):
                queues[process].append(item)
            elif item not in seen:
                seen.add(item)
                queues[process].appendleft(item)

    for process, share in zip(processes, shares, strict=True):
        add(process, share)
    idle, busy = [*processes], list[Connection]()
    while True:
        for process in [*idle]:
            # The work at the end of another process's share has the least in common with the code that this other
            # process is reading.
            own, largest = queues[process], max(queues.values(), key=len)
            if own or largest:
                process.send(own.popleft() if own else largest.pop())
                idle.remove(process)
                busy.append(process)
        if not busy:
            break
        for ready in wait(busy):
            assert isinstance(ready, Connection)
            is_file, steps = ready.recv()
            if is_file:
                progress()
            add(ready, steps)
            busy.remove(ready)
            idle.append(ready)
    _tell(processes, None)


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
        # A process that inherits a copy of the connection would not notice the end of the first process.
        end.close()
    # After any error, the first process reads everything itself, and then also reports the error.
    with suppress(Exception):
        run_deep(lambda: _serve(driver, connection))


def _serve(driver: Driver, connection: Connection) -> None:
    known = driver.project.files.indexes.keys() | ()
    _take_part(driver, connection)
    connection.send(driver.reached())
    connection.send(_shareable(driver, driver.assumed(connection.recv())))
    _take_part(driver, connection)
    connection.send(driver.learnt())
    # Each process repeats its own steps, because it has their answers.
    connection.send(
        [found for step in driver.again(connection.recv()) for found in _shareable(driver, driver.take(step))]
    )
    _take_part(driver, connection)
    outcome = driver.outcome()
    connection.send((outcome, driver.project.found(known)))


def _take_part(driver: Driver, connection: Connection) -> None:
    """Take files and steps, and send the steps that they lead to, until there are no more."""
    while (item := connection.recv()) is not None:
        is_file = isinstance(item, str)
        connection.send((is_file, _shareable(driver, driver.look_into(item) if is_file else driver.take(item))))


def _shareable(driver: Driver, steps: Iterable[Step]) -> list[Step]:
    """Read the steps that only this process can take; return the steps that any process can take."""
    shareable, waiting = [], [*steps]
    while waiting:
        step = waiting.pop()
        if step.is_shareable:
            shareable.append(step)
        else:
            waiting += driver.take(step)
    return shareable
