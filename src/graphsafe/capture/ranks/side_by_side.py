"""Threads of the parent that each wait for the children of one device or rank."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence


def side_by_side(works: Sequence[Callable[[], None]], abandon: Callable[[], None] = lambda: None) -> None:
    """Until all have ended. The first that raises is told to the others by `abandon`, and raised here; what they raise
    because of it is not."""
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
