"""A difference between replays and eager steps counts if a second capture shows it too."""

from __future__ import annotations

from dataclasses import replace

from graphsafe.capture.parent.probes import confirmed, may_be_chance
from graphsafe.report.probes import Probes
from graphsafe.report.probes.capture import Capture
from graphsafe.report.probes.construct import Construct
from graphsafe.report.probes.replay import Check, Replay
from graphsafe.report.probes.step import Step
from graphsafe.report.probes.twin import Difference, Twin
from graphsafe.report.verdict import judge

CACHE, OUTPUT = "state cache.k", "output"
EAGER = Check("output along the path of captures", "different", False, 3.0, 0.0, compares="plain eager")


def replays(*wrong: str, rng_law: str | None = "skipped") -> Replay:
    checks = tuple(
        Check(name, "different", False, 217.0, 0.0) if name in wrong else Check(name) for name in (CACHE, OUTPUT)
    )
    status = "fail" if wrong else "pass"
    return Replay(status, reference="independent", checks=checks, varied=3, unvaried=(), rng_law=rng_law)


def probes(replay: Replay) -> Probes:
    found = Probes(Construct("pass", built=True, left_capturing=False), Step("pass", ran=True), replay=replay)
    return replace(found, capture=Capture("pass", nodes={"kernel": 3}, empty=False), twin=Twin("pass"))


def test_a_difference_that_comes_back_counts() -> None:
    replay = replays(CACHE)
    assert may_be_chance(probes(replay))
    assert confirmed(replay, replays(CACHE, OUTPUT)) == replay
    assert judge(probes(confirmed(replay, replay))).verdict == "not-ready"


def test_a_difference_that_does_not_come_back_proves_nothing() -> None:
    for second in (replays(), replays(OUTPUT)):
        judged = judge(probes(confirmed(replays(CACHE), second)))
        assert judged.verdict == "inconclusive"
        assert judged.reasons == (
            "replays of one capture differ from eager steps in state cache.k, and replays of another capture do not",
        )


def test_the_differences_that_come_back_still_count() -> None:
    found = confirmed(replays(CACHE, OUTPUT), replays(OUTPUT))
    assert [(check.name, check.result) for check in found.checks or ()] == [(CACHE, None), (OUTPUT, "different")]
    assert judge(probes(found)).verdict == "not-ready"


def test_a_second_capture_without_an_answer_changes_nothing() -> None:
    replay = replays(CACHE)
    assert confirmed(replay, Replay(checks=())) == replay
    assert confirmed(replay, replays(rng_law=None)) == replay


def test_eager_differences_and_explained_ones_need_no_second_capture() -> None:
    eager = replace(replays(), status="fail", checks=(Check(OUTPUT), EAGER))
    assert not may_be_chance(probes(eager))
    both = replace(replays(CACHE), checks=(*(replays(CACHE).checks or ()), EAGER))
    assert EAGER in (confirmed(both, replays()).checks or ())
    frozen = Twin("fail", differences=(Difference(0, "scalar", "mul", "2.0", "3.0"),))
    assert not may_be_chance(replace(probes(replays(CACHE)), twin=frozen))
