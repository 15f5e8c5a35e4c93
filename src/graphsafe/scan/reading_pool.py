"""Reads a project in several processes. The report is the same as with one process.

Each process has its own engine. It gets a few files and steps at a time (a step is a `driver.Step`, a place where
reading begins). It sends back the further steps that it finds there. Each of these steps is then given to only one
process. Each process itself reads the functions that its steps call. A process first gets neighbouring files and the
steps that it found itself, since these share most of the functions that they call. It gets other work only when none of
this work is left.
"""

from __future__ import annotations

import multiprocessing
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain, pairwise
from multiprocessing.connection import Connection, wait
from typing import Any

from graphsafe.scan.deep_stack import run_deep
from graphsafe.scan.driver import Driver, Step
from graphsafe.scan.learnt import learnt_together

MOST_AT_ONCE = 8
"""The largest number of files and steps that a process gets at once. A request for work takes as long as a small step,
so a process gets several at once."""


def read_shared(driver: Driver, paths: Sequence[str], count: int, progress: Callable[[], None]) -> bool:
    """Read the files in `count` processes. `progress` is called for each file.

    Returns False, with nothing read, if the system cannot fork processes or if a process was killed from outside.
    """
    if count <= 1 or sys.platform != "linux":
        # On other systems, a new process does not inherit this process's data.
        return False
    try:
        with _processes(driver, count) as processes:
            size = len(paths) / count
            bounds = [round(number * size) for number in range(count + 1)]
            shares = [paths[first:last] for first, last in pairwise(bounds)]
            # Every second process reads its share backwards. So a process that takes the last files of its neighbour's
            # share gets the files nearest to its own.
            shares[1::2] = [share[::-1] for share in shares[1::2]]
            seen: set[Step] = set()
            _hand_out(processes, shares, seen, progress)
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
    """Give each process its own share, a few items at a time. A process that has finished its share gets items from the
    end of the largest share.

    `seen` contains the steps that were sent to some process or wait to be sent.
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
            # Items from the end of another process's share have the least in common with the code that the other
            # process is reading now.
            own, largest = queues[process], max(queues.values(), key=len)
            if own or largest:
                take = own.popleft if own else largest.pop
                process.send([take() for _ in range(_at_once(own or largest))])
                idle.remove(process)
                busy.append(process)
        if not busy:
            break
        for ready in wait(busy):
            assert isinstance(ready, Connection)
            files, steps = ready.recv()
            for _ in range(files):
                progress()
            add(ready, steps)
            busy.remove(ready)
            idle.append(ready)
    _tell(processes, None)


def _at_once(queue: Sequence[str | Step]) -> int:
    """Return how many items of a queue a process gets: fewer near the end, so that all processes finish together."""
    return min(MOST_AT_ONCE, 1 + len(queue) // 16)


def _answers(processes: Sequence[Connection]) -> list[Any]:
    return [process.recv() for process in processes]


def _tell(processes: Sequence[Connection], what: object) -> None:
    for process in processes:
        process.send(what)


@contextmanager
def _processes(driver: Driver, count: int) -> Iterator[list[Connection]]:
    """Start processes that inherit this process's data, and yield connections to them. The processes end when the
    context is left."""
    # Forking is safe here, because graphsafe has started no thread yet.
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
        # When the first process exits, its connections close, and the other processes notice this. Copies of these
        # connections in this process would keep them open.
        end.close()
    # After any error, the first process reads everything itself, and then also reports the error.
    with suppress(Exception):
        run_deep(lambda: _serve(driver, connection))


def _serve(driver: Driver, connection: Connection) -> None:
    known = driver.project.files.indexes.keys() | ()
    sent: set[Step] = set()
    _take_part(driver, connection, sent)
    connection.send(driver.reached())
    connection.send(_shareable(driver, driver.assumed(connection.recv()), sent))
    _take_part(driver, connection, sent)
    connection.send(driver.learnt())
    # In the second round, each process reads its own steps again, because it has their answers in memory.
    again = driver.again(connection.recv())
    connection.send([found for step in again for found in _shareable(driver, driver.take(step), sent)])
    _take_part(driver, connection, sent)
    outcome = driver.outcome()
    connection.send((outcome, driver.project.found(known)))


def _take_part(driver: Driver, connection: Connection, sent: set[Step]) -> None:
    """Receive files and steps, and send back the steps that follow from them. Stop when None is received."""
    while (items := connection.recv()) is not None:
        files = [item for item in items if isinstance(item, str)]
        found = [driver.look_into(item) if isinstance(item, str) else driver.take(item) for item in items]
        connection.send((len(files), _shareable(driver, chain.from_iterable(found), sent)))


def _shareable(driver: Driver, steps: Iterable[Step], sent: set[Step]) -> list[Step]:
    """Return the steps that any process can read and that were not `sent` before. Read all other steps in this process
    first."""
    shareable, waiting = [], [*steps]
    while waiting:
        step = waiting.pop()
        if not step.is_shareable:
            waiting += driver.take(step)
        elif step not in sent:
            sent.add(step)
            shareable.append(step)
    return shareable
