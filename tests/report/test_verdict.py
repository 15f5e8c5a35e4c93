"""The verdict, one row of the table a status: what differs from a step that is ready, and what is then said."""

from __future__ import annotations

import copy
import itertools
import random
from typing import Any

import pytest

from graphsafe.report.model import VERDICTS, Plan
from graphsafe.report.probes import PROBE_KEYS
from graphsafe.report.reading import read
from graphsafe.report.verdict import judge, verdict, worst

READY: dict[str, dict[str, Any]] = {
    "construct": {"status": "pass", "built": True, "left_capturing": False},
    "step": {"status": "pass", "ran": True, "unknown_operations": []},
    "state": {"status": "pass", "changed": []},
    "capture": {"status": "pass", "empty": False, "misses_work": False, "nodes": {"kernel": 3}, "first_error": None},
    "replay": {
        "status": "pass",
        "reference": "independent",
        "checks": [
            {"name": "output", "result": "equal", "equal": True, "max_abs": 0.0, "floor": 0.0, "rounding": None},
            {"name": "cache.k", "result": "rounding", "equal": False, "max_abs": 1e-6, "floor": 2e-6},
        ],
        "varied": 3,
        "rng_law": "pass",
        "first_step": "skipped",
    },
    "memory": {"status": "pass"},
    "timing": {"status": "pass"},
}
PLAN = Plan(verified=True, coverage=0.875)


def changed(**changes: Any) -> dict[str, dict[str, Any]]:
    """READY with `probe__key=value` replaced; `probe=None` removes the probe."""
    probes = copy.deepcopy(READY)
    for name, value in changes.items():
        probe, _, key = name.partition("__")
        if key:
            probes.setdefault(probe, {"status": "pass"})[key] = value
        else:
            del probes[probe]
    return probes


def check(**values: Any) -> list[dict[str, Any]]:
    return [{"name": "output", "equal": True, "max_abs": 0.0, "floor": 0.0} | values]


CAPTURE_FAILED = {
    "capture__status": "fail",
    "capture__first_error": {"message": "operation not permitted when stream is capturing"},
    "replay__status": "skipped",
    "replay__reference": None,
    "replay__checks": [],
    "replay__varied": None,
    "replay__rng_law": None,
}

CASES = [
    # ready
    ("as it is", {}, "ready", "captured, and 3 replays on changed inputs equal the reference"),
    ("one replay", {"replay__varied": 1}, "ready", "1 replay on changed inputs"),
    ("draws no random numbers", {"replay__rng_law": "skipped"}, "ready", "captured"),
    ("first step compared", {"replay__first_step": "pass"}, "ready", "captured"),
    ("first step not known", {"replay__first_step": None}, "ready", "captured"),
    ("instrumented step found violations", {"step__status": "fail"}, "ready", "captured"),
    ("instrumented step died", {"step__status": "crashed", "step__ran": None}, "ready", "captured"),
    ("instruments broke the step", {"step__status": "fail", "step__ran": False}, "ready", "captured"),
    ("construction swallowed a capture", {"construct__status": "fail"}, "ready", "captured"),
    ("state, memory, timing failed", {"state": None, "memory": None, "timing__status": "timeout"}, "ready", "captured"),
    ("nodes cannot be counted", {"capture__empty": None, "capture__misses_work": None}, "ready", "captured"),
    ("unequal within the floor", {"replay__checks": check(equal=False, max_abs=0.5, floor=0.5)}, "ready", "captured"),
    ("unstable, yet equal", {"replay__checks": check(floor=None)}, "ready", "captured"),
    # not-ready: legality
    ("capture failed", CAPTURE_FAILED, "not-ready", "the capture failed: operation not permitted when stream"),
    ("died capturing", {"capture__status": "crashed", "capture__phase": "capture"}, "not-ready", "while capturing"),
    ("step instrumented badly, capture failed", CAPTURE_FAILED | {"step__ran": False}, "not-ready", "capture failed"),
    (
        "capture failed, unknown op",
        CAPTURE_FAILED | {"capture__unknown_operations": ["lib::op"]},
        "not-ready",
        "failed",
    ),
    # not-ready: the graph
    ("empty graph", {"capture__empty": True}, "not-ready", "the graph is empty"),
    (
        "empty graph, called a failure",
        {"capture__status": "fail", "capture__empty": True},
        "not-ready",
        "graph is empty",
    ),
    (
        "empty graph of a step on the host",
        {"capture__empty": True, "timeline__operations": ()},
        "not-ready",
        "the graph is empty: an eager step launches nothing on the device",
    ),
    ("misses work", {"capture__misses_work": True}, "not-ready", "outside the graph"),
    ("empty graph, nothing else known", {"capture__empty": True, "replay": None}, "not-ready", "empty"),
    # not-ready: replay
    ("beyond the floor", {"replay__checks": check(equal=False, max_abs=0.6, floor=0.5)}, "not-ready", "differs"),
    ("another shape", {"replay__checks": check(equal=False, max_abs=None, floor=0.5)}, "not-ready", "in output"),
    ("NaN", {"replay__checks": check(equal=False, max_abs=float("nan"), floor=0.5)}, "not-ready", "differs"),
    ("status says pass, a check does not", {"replay__checks": check(equal=False, max_abs=1.0)}, "not-ready", "differs"),
    (
        "one check differs, one is unstable",
        {"replay__checks": check(equal=False, max_abs=1.0) + check(name="b", equal=False, max_abs=1.0, floor=None)},
        "not-ready",
        "in output",
    ),
    (
        "a replay raised",
        {"replay__status": "fail", "replay__first_error": {"message": "illegal memory access"}, "replay__checks": []},
        "not-ready",
        "a replay failed: illegal memory access",
    ),
    ("died in a replay", {"replay__status": "crashed", "replay__reason": "signal 11"}, "not-ready", "signal 11"),
    ("RNG law", {"replay__status": "fail", "replay__rng_law": "fail"}, "not-ready", "draw other random numbers"),
    ("filled in step 1", {"replay__first_step": "fail"}, "not-ready", "first step"),
    # not-ready: construction, whatever happened to the step
    ("left capturing", {"construct__left_capturing": True}, "not-ready", "left a random generator in capture mode"),
    (
        "left capturing, so the step fails eagerly",
        {"construct__left_capturing": True, "step__ran": False, "capture__status": "skipped", "replay": None},
        "not-ready",
        "generator",
    ),
    (
        "left capturing, unknown op",
        {"construct__left_capturing": True, "step__unknown_operations": ["x"]},
        "not-ready",
        "gen",
    ),
    # inconclusive
    (
        "no room for a second capture",
        {"twin__status": "skipped", "twin__first_error": {"type": "IndexError", "message": "index 8"}},
        "inconclusive",
        "the step runs only a few times, so no second capture was possible: give it a reset",
    ),
    (
        "not built",
        {"construct__built": False, "construct__reason": "No module named 'flash'", "capture__status": "skipped"},
        "inconclusive",
        "the target was not built: No module named 'flash'",
    ),
    ("construction died", {"construct__status": "crashed", "construct__left_capturing": None}, "inconclusive", "died"),
    (
        "construction hangs",
        {"construct__status": "timeout", "construct__left_capturing": None},
        "inconclusive",
        "timed",
    ),
    ("generators not checked", {"construct__left_capturing": None}, "inconclusive", "generators were not checked"),
    ("construct probe absent", {"construct": None}, "inconclusive", "generators were not checked"),
    (
        "hangs eagerly",
        {
            "step__ran": False,
            "step__status": "timeout",
            "step__reason": "not finished after 8 s",
            "capture__status": "skipped",
            "replay": None,
        },
        "inconclusive",
        "the step timed out: not finished after 8 s",
    ),
    (
        "fails eagerly",
        {
            "step__status": "fail",
            "step__ran": False,
            "step__reason": "ValueError: no",
            "capture__status": "skipped",
            "replay": None,
        },
        "inconclusive",
        "the step fails eagerly: ValueError: no",
    ),
    ("capture hangs", {"capture__status": "timeout", "replay": None}, "inconclusive", "the capture timed out"),
    ("capture not run", {"capture__status": "skipped", "replay": None}, "inconclusive", "the capture did not run"),
    ("capture probe absent", {"capture": None, "replay": None}, "inconclusive", "the capture did not run"),
    ("died in warm-up", {"capture__status": "crashed", "capture__phase": "warm-up"}, "inconclusive", "died"),
    ("died, nobody knows where", {"capture__status": "crashed"}, "inconclusive", "the capture died"),
    ("replay hangs", {"replay__status": "timeout"}, "inconclusive", "the replay timed out"),
    ("replay absent", {"replay": None}, "inconclusive", "the replay did not run"),
    ("no reference", {"replay__reference": None}, "inconclusive", "no independent reference"),
    (
        "no reference, so a difference says nothing",
        {"replay__reference": None, "replay__checks": check(equal=False, max_abs=1.0)},
        "inconclusive",
        "no independent reference",
    ),
    ("nothing compared", {"replay__checks": []}, "inconclusive", "nothing could be compared"),
    ("one not comparable", {"replay__checks": check() + check(name="b", equal=None)}, "inconclusive", "in b"),
    ("unstable", {"replay__checks": check(equal=False, max_abs=9.0, floor=None)}, "inconclusive", "not reproducible"),
    (
        "unstable because of a generator",
        {
            "replay__checks": check(equal=False, max_abs=9.0, floor=None),
            "state__changed": [{"name": "driver", "how": "opaque", "before": None, "after": None}],
        },
        "inconclusive",
        "not reproducible in output: a step moves driver on, which no run can put back",
    ),
    ("nothing varied", {"replay__varied": 0}, "inconclusive", "no changed input changed the reference"),
    ("not known whether varied", {"replay__varied": None}, "inconclusive", "no changed input"),
    ("random numbers not checked", {"replay__rng_law": None}, "inconclusive", "random numbers of replays were not"),
    ("first step died", {"replay__first_step": "crashed"}, "inconclusive", "comparison with a first step died"),
    ("first step hangs", {"replay__first_step": "timeout"}, "inconclusive", "comparison with a first step timed out"),
    (
        "failed without a difference",
        {"replay__status": "fail", "replay__reason": "?"},
        "inconclusive",
        "naming a difference: ?",
    ),
    ("unknown op", {"capture__unknown_operations": ["lib::op"]}, "inconclusive", "cannot predict lib::op"),
    (
        "unknown op in the step",
        {"step__unknown_operations": ["a", "b", "c", "d"]},
        "inconclusive",
        "a, b, c and 1 more",
    ),
    ("unknown op, empty graph", {"step__unknown_operations": ["a"], "capture__empty": True}, "inconclusive", "predict"),
    (
        "unknown op, empty graph, called a failure",
        {"step__unknown_operations": ["a"], "capture__empty": True, "capture__status": "fail", "replay": None},
        "inconclusive",
        "predict",
    ),
    (
        "unknown op, difference",
        {"step__unknown_operations": ["a"], "replay__checks": check(equal=False, max_abs=1.0)},
        "inconclusive",
        "predict",
    ),
    (
        "unknown op, first step",
        {"step__unknown_operations": ["a"], "replay__first_step": "fail"},
        "inconclusive",
        "predict",
    ),
]


@pytest.mark.parametrize(
    ("changes", "expected", "reason"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_verdict(changes: dict[str, Any], expected: str, reason: str) -> None:
    judgement = judge(changed(**changes))
    assert judgement.verdict == expected
    assert reason in judgement.reasons[0]


def test_nothing_known_is_inconclusive() -> None:
    assert judge({}).verdict == "inconclusive"
    assert judge({name: {} for name in PROBE_KEYS}).verdict == "inconclusive"


PLAN_CASES = [
    ("a ready step stays ready", {}, PLAN, "ready"),
    ("capture failed", CAPTURE_FAILED, PLAN, "ready-with-breaks"),
    ("replay differs", {"replay__checks": check(equal=False, max_abs=1.0)}, PLAN, "ready-with-breaks"),
    ("the whole could not be judged", {"replay__status": "timeout"}, PLAN, "ready-with-breaks"),
    ("not verified", CAPTURE_FAILED, Plan(coverage=0.9), "not-ready"),
    ("verification unknown", CAPTURE_FAILED, read(Plan, {"verified": None, "coverage": 0.9}), "not-ready"),
    ("covers nothing", CAPTURE_FAILED, Plan(verified=True, coverage=0.0), "not-ready"),
    ("coverage unknown", CAPTURE_FAILED, Plan(verified=True), "not-ready"),
    ("no plan", CAPTURE_FAILED, None, "not-ready"),
    ("left capturing", CAPTURE_FAILED | {"construct__left_capturing": True}, PLAN, "not-ready"),
    ("filled in step 1", {"replay__first_step": "fail"}, PLAN, "not-ready"),
    ("unknown op", {"step__unknown_operations": ["a"]}, PLAN, "inconclusive"),
]


@pytest.mark.parametrize(
    ("changes", "plan", "expected"), [row[1:] for row in PLAN_CASES], ids=[row[0] for row in PLAN_CASES]
)
def test_verdict_with_a_plan(changes: dict[str, Any], plan: Plan | None, expected: str) -> None:
    assert verdict(changed(**changes), plan) == expected


def test_a_plan_says_what_it_covers_and_what_it_works_around() -> None:
    judgement = judge(changed(**CAPTURE_FAILED), PLAN)
    assert judgement.reasons[0] == "a verified plan covers 87 % of the step"
    assert judgement.reasons[1].startswith("the capture failed")


def test_every_reason_against_is_given() -> None:
    judgement = judge(changed(construct__left_capturing=True, capture__empty=True, replay__rng_law="fail"))
    assert [reason.split()[0] for reason in judgement.reasons] == ["construction", "the", "replays"]


def test_ready_needs_every_deciding_key() -> None:
    """No single key may vanish from a ready step and leave it ready, but for those that only word or explain."""
    explaining = {
        "built",
        "ran",
        "unknown_operations",
        "nodes",
        "first_error",
        "changed",
        "empty",
        "misses_work",
        "first_step",
    }
    for probe, key in [(name, key) for name in ("construct", "step", "capture", "replay") for key in READY[name]]:
        probes = copy.deepcopy(READY)
        del probes[probe][key]
        decides = key not in explaining and not (key == "status" and probe in ("construct", "step"))
        assert (verdict(probes) == "ready") is not decides, (probe, key)


@pytest.mark.child
def test_any_probes_get_a_verdict_and_a_reason() -> None:
    """Whatever combination of values the table of keys allows, there is one verdict and at least one reason."""
    statuses = ["pass", "fail", "skipped", "crashed", "timeout", None]
    values: dict[str, list[Any]] = {
        "construct__status": statuses,
        "construct__built": [True, False, None],
        "construct__left_capturing": [True, False, None],
        "step__ran": [True, False, None],
        "step__unknown_operations": [[], ["a"], None],
        "capture__status": statuses,
        "capture__phase": ["warm-up", "capture", None],
        "capture__empty": [True, False, None],
        "replay__status": statuses,
        "replay__first_error": [None, {"message": "m"}],
        "replay__reference": ["independent", None],
        "replay__checks": [None, [], check(), check(equal=False), check(equal=False, floor=None), check(equal=None)],
        "replay__varied": [None, 0, 2],
        "replay__rng_law": ["pass", "fail", "skipped", None],
        "replay__first_step": [*statuses],
    }
    pick = random.Random(0)
    seen = set()
    for _ in itertools.repeat(None, 5000):
        probes = changed(**{key: pick.choice(choices) for key, choices in values.items()})
        plan = pick.choice([None, PLAN])
        judgement = judge(probes, plan)
        assert judgement.reasons and all(judgement.reasons)
        seen.add(judgement.verdict)
    assert seen >= {"not-ready", "inconclusive", "ready-with-breaks"}


def test_worst() -> None:
    assert [worst([verdict_, "ready"]) for verdict_ in VERDICTS] == list(VERDICTS)
    assert worst(["inconclusive", "not-ready", "ready-with-breaks"]) == "not-ready"
    assert worst(["inconclusive", "ready-with-breaks"]) == "inconclusive"
    assert worst([]) == "inconclusive"
