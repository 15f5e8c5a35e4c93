"""Runs threads of the parent that each wait for the children of one device or rank."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence


def side_by_side(works: Sequence[Callable[[], None]], abandon: Callable[[], None] = lambda: None) -> None:
    """Run all works until they end. The first exception is passed to the others through `abandon`, and raised here;
    exceptions that it causes in the others are dropped."""
    if len(works) == 1:
        works[0]()
        return
    errors: list[BaseException] = []

    def run(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)
            abandon()

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
