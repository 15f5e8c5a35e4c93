"""The thread that a scan runs in."""

from __future__ import annotations

import pytest

from graphsafe.scan.deep_stack import run_deep


def descend(depth: int) -> int:
    return 1 + descend(depth - 1) if depth else 0


def test_recursion_goes_deeper_than_python_allows_by_itself() -> None:
    assert run_deep(lambda: descend(15_000)) == 15_000


def test_memory_for_frames_is_not_taken_from_the_system_again_and_again() -> None:
    resource = pytest.importorskip("resource")

    def page_faults() -> int:
        return int(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)

    def work() -> int:
        descend(3_000)
        before = page_faults()
        for _ in range(200):
            descend(3_000)
        return page_faults() - before

    # Each descent takes about 80 pages, which a thread of its own keeps.
    assert run_deep(work) < 2_000
