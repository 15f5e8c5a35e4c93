"""Which children may be on a GPU together: who measures is alone, and the others share its memory."""

from __future__ import annotations

import pytest

from graphsafe.capture.processes.device_use import DeviceUse, Stay, ran_out_of_memory

GIB = 1 << 30


def stay(owner: str, needed: int | None = None, *, alone: bool = False, device: str = "cuda:0") -> Stay:
    return Stay(device, owner, needed, 100 * GIB, alone)


def test_children_share_a_device_as_far_as_its_memory_goes() -> None:
    use = DeviceUse()
    first, second, third = stay("a", 30 * GIB), stay("b", 40 * GIB), stay("c", 20 * GIB)
    assert use.enter(first) and not first.company
    assert use.enter(second) and first.company and second.company
    assert not use.enter(third)
    assert use.enter(stay("c", 20 * GIB, device="cuda:1"))
    use.leave(first)
    assert use.enter(third)


def test_children_of_one_target_are_not_kept_apart_here() -> None:
    use = DeviceUse()
    assert all(use.enter(each) for each in (stay("a", 60 * GIB), stay("a", 60 * GIB)))


def test_what_has_not_been_built_yet_starts_beside_others_and_is_known_to_have_had_company() -> None:
    use = DeviceUse()
    known, unknown = stay("a", 60 * GIB), stay("b")
    assert use.enter(known) and use.enter(unknown)
    assert known.company and unknown.company


def test_who_measures_is_alone_and_waits_for_no_one_who_came_later() -> None:
    use = DeviceUse()
    running, measuring, later = stay("a", GIB), stay("b", GIB, alone=True), stay("c", GIB)
    assert use.enter(running)
    assert not use.enter(measuring)
    assert not use.enter(later), "came later, and would keep the other waiting"
    use.leave(running)
    assert not use.enter(later)
    assert use.enter(measuring) and not measuring.company
    assert not use.enter(later)
    use.leave(measuring)
    assert use.enter(later)


def test_who_gives_up_waiting_does_not_stand_in_the_way() -> None:
    use = DeviceUse()
    running, measuring = stay("a", GIB), stay("b", GIB, alone=True)
    assert use.enter(running) and not use.enter(measuring)
    use.leave(measuring)
    assert use.enter(stay("c", GIB))


@pytest.mark.parametrize(
    ("told", "is_so"),
    [
        ({"target_error": {"line": "the step failed: OutOfMemoryError: CUDA out of memory. Tried"}}, True),
        ({"target_error": {"line": "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED"}}, True),
        ({"target_error": {"line": "ValueError: no weights here"}}, False),
    ],
)
def test_only_a_lack_of_memory_is_tried_again_alone(told: object, is_so: bool) -> None:
    assert ran_out_of_memory(told) is is_so
