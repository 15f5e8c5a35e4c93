"""Which children may be on a GPU together: who measures is alone, and the others share its memory."""

from __future__ import annotations

import time

import pytest

from graphsafe.capture.parent.supervision.device_use import DeviceStay, DeviceUse, ran_out_of_memory

GIB = 1 << 30


def stay(owner: str, needed: int | None = None, *, alone: bool = False, device: str = "cuda:0") -> DeviceStay:
    return DeviceStay(device, owner, needed, 100 * GIB, alone)


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


def test_who_enters_alone_waits_for_no_one_who_came_later() -> None:
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


def test_those_who_are_ready_to_measure_do_so_one_after_another() -> None:
    use = DeviceUse()
    first, second, running = stay("a", GIB), stay("b", GIB), stay("c", GIB)
    assert all(use.enter(each) for each in (first, second, running))
    assert not use.have_alone(first) and not use.have_alone(second)
    later = stay("d", GIB)
    assert use.enter(later), "others need not wait for that, for a while"
    use.leave(running)
    use.leave(later)
    assert use.have_alone(first) and not use.have_alone(second)
    assert not use.enter(stay("e", GIB))
    use.leave(first)
    assert use.have_alone(second)


def test_who_waits_long_to_measure_does_not_wait_for_those_who_come_then(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    use = DeviceUse()
    ready, running = stay("a", GIB), stay("b", GIB)
    assert use.enter(ready) and use.enter(running) and not use.have_alone(ready)
    now += 60
    assert not use.enter(stay("c", GIB))
    use.leave(running)
    assert use.have_alone(ready)


def test_who_gives_up_waiting_does_not_stand_in_the_way() -> None:
    use = DeviceUse()
    running, measuring = stay("a", GIB), stay("b", GIB, alone=True)
    assert use.enter(running) and not use.enter(measuring)
    use.leave(measuring)
    assert use.enter(stay("c", GIB))


@pytest.mark.parametrize(
    ("answers", "is_so"),
    [
        ({"target_error": {"line": "the step failed: OutOfMemoryError: CUDA out of memory. Tried"}}, True),
        ({"target_error": {"line": "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED"}}, True),
        ({"target_error": {"line": "ValueError: no weights here"}}, False),
    ],
)
def test_only_a_lack_of_memory_is_tried_again_alone(answers: object, is_so: bool) -> None:
    assert ran_out_of_memory(answers) is is_so


def test_who_waits_for_long_measures_beside_one_that_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    use = DeviceUse()
    waiting, slow, other = stay("a", GIB), stay("b", GIB), stay("c", GIB)
    assert use.enter(waiting) and use.enter(slow) and use.enter(other)
    assert not use.have_alone(waiting)
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 30)
    assert use.have_alone(waiting) and waiting.shared
    assert not use.have_alone(other), "one after another all the same"
    use.leave(waiting)
    assert not use.have_alone(other), "it has not waited for long yet"
    use.leave(slow)
    assert use.have_alone(other) and not other.shared
