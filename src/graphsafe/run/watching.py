"""`graphsafe.watch()` and `graphsafe.ledger()`: the ledger of this process while it runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from graphsafe.config import config_over
from graphsafe.errors import RequestError
from graphsafe.report.shown import Ledger
from graphsafe.report.text import count
from graphsafe.rulebook.book import Rulebook, rulebook_of
from graphsafe.run.child import watch as watches
from graphsafe.run.child.watch import Watch
from graphsafe.run.parent.idle import Readings
from graphsafe.run.parent.launch import parsed_devices
from graphsafe.run.parent.merge import ledger_of
from graphsafe.run.part import Options


class Watching:
    """Watches captures and replays of this process inside `with`.

    Under `graphsafe run`, the process is already watched. Then this object only gives access to the ledger.
    """

    def __init__(self, options: Options, book: Rulebook) -> None:
        self._options = options
        self._book = book
        self._watch: Watch | None = None
        self._is_own = False

    def __enter__(self) -> Watching:
        self._is_own = watches.current is None
        self._watch = watches.current or Watch(self._options, token=str(os.getpid()))
        watches.current = self._watch
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_own and self._watch is not None:
            watches.current = None
            self._watch.remove()

    def ledger(self) -> Ledger:
        """Return the ledger so far. After the `with` block, return the ledger at the end of the block.

        Raises RequestError before the block.
        """
        if self._watch is None:
            raise RequestError("graphsafe.watch: it has seen nothing yet; use it as `with graphsafe.watch() as watch:`")
        return _ledger(self._watch, self._book)


def watch(*, device: str | torch.device | Sequence[str | torch.device] | None = None, waits: bool = False) -> Watching:
    """Watch the CUDA graphs of this process inside a `with` block.

    `device="sim"` uses the simulated device in the block, for machines without a GPU. With `"cuda:1"`, or a list of
    such devices, only events on these devices are recorded. `waits` also records lines that wait for the device between
    replays; this costs about 20 µs for each wait. Graphs that were captured before the block are not watched. The
    configuration for the working directory sets the rules and levels. Raises RequestError for any other device, for a
    device that does not exist, and for an invalid configuration.

        with graphsafe.watch() as watch:
            serve()
        print(watch.ledger().findings)
    """
    given = [device] if isinstance(device, (str, torch.device)) else device or ()
    devices = parsed_devices([str(one) for one in given])
    have = torch.cuda.device_count()
    for named in devices:
        if named.startswith("cuda:") and int(named.partition(":")[2]) >= have:
            raise RequestError(f"watch: {named}: this machine has {count(have, 'CUDA device')}")
    return Watching(Options(devices, waits), _book_here())


def ledger() -> Ledger:
    """Return the ledger of this process so far, under `graphsafe run` or inside `with graphsafe.watch():`.

    Raises RequestError if nothing is watched or the configuration is wrong.
    """
    if watches.current is None:
        raise RequestError("graphsafe.ledger: nothing is watched; use `graphsafe run` or `with graphsafe.watch():`")
    return _ledger(watches.current, _book_here())


def _book_here() -> Rulebook:
    return rulebook_of(config_over(Path.cwd()))


def _ledger(watch: Watch, book: Rulebook) -> Ledger:
    unread = Readings(problem="only `graphsafe run` reads NVML, in a process of its own")
    return Ledger.of(ledger_of([watch.part()], sys.orig_argv, None, book, unread))
