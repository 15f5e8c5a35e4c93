"""Another path of later steps is harmless only if rounds took it, and if their results can show a difference."""

from __future__ import annotations

import pytest
import torch

from graphsafe.capture.answers.probes import ComparedRounds, TakenPath
from graphsafe.capture.child.lines.operations import PathSeen, calls_of, name_of_path, unlike
from graphsafe.capture.child.probes.round_paths import is_fine
from graphsafe.capture.parent.probes import with_rounds
from graphsafe.report.probes import Probes
from graphsafe.report.probes.horizon import Departure, Horizon
from graphsafe.report.probes.replay import Check, Replay

from .conftest import DEVICES, ON_GPU, TARGETS, Prove, Reports, marked, probes_of

STALE = ("averaged", "seldom_grey", "guided", "synchronised", "paged", "capped")
HIDDEN = ("banned_word", "banned_word_beside_input")
SOUND = (
    *("averaged_by_tensor", "guided_by_tensor", "never_synchronised", "paged_unchanged", "never_capped"),
    *("no_word_banned", "no_word_banned_is_seen"),
)
SLOW = (
    *("banned_word_beside_input", "averaged_by_tensor", "guided_by_tensor", "never_synchronised"),
    *("seldom_grey", "guided", "paged_unchanged", "never_capped"),
    *("synchronised", "paged", "no_word_banned"),
)


@pytest.fixture(scope="module", params=DEVICES)
def reports(request: pytest.FixtureRequest, prove: Prove) -> Reports:
    return Reports(prove, f"{TARGETS}/other_paths.py:build_", request.param, (*STALE, *HIDDEN, *SOUND), SLOW)


@pytest.mark.parametrize("name", marked(STALE, SLOW))
def test_what_later_steps_change_is_not_ready(reports: Reports, name: str) -> None:
    assert reports[name]["verdict"] == "not-ready"


@pytest.mark.parametrize("name", marked(HIDDEN, SLOW))
def test_results_that_would_not_show_a_difference_prove_nothing(reports: Reports, name: str) -> None:
    assert reports[name]["verdict"] == "inconclusive"
    assert probes_of(reports[name])["replay"]["reason"].startswith("no result shows small differences of aten.masked")


@pytest.mark.parametrize("name", marked(SOUND, SLOW))
def test_later_steps_that_compute_the_same_are_ready(reports: Reports, name: str) -> None:
    assert reports[name]["verdict"] == "ready"


@pytest.mark.parametrize("device", [ON_GPU])
def test_a_small_difference_on_another_path_is_no_chance(prove: Prove, device: str) -> None:
    (report,) = prove([f"{TARGETS}/other_paths.py:build_halved_by_device_count"], device)
    assert report["verdict"] == "not-ready"


def test_an_argument_that_the_step_writes_is_compared_in_rounds(reports: Reports) -> None:
    checks = probes_of(reports["averaged"])["replay"]["checks"]
    assert [one["name"] for one in checks if one["result"] == "different"] == ["state args[1] in a later round"]


def test_a_path_shows_which_memory_depends_on_some_of_its_operations() -> None:
    x, y = torch.ones(4), torch.zeros(4)
    with PathSeen(lambda tensor: True) as seen:
        a = x * 2
        b = x * 3
        y.add_(a)
        c = b.reshape(2, 2)
    calls = calls_of(seen.operations, ())
    assert [call.split("'")[1] for call in calls[:3]] == ["aten.mul.Tensor", "aten.mul.Tensor", "aten.add_.Tensor"]
    assert calls[0] != calls[1] and calls_of(seen.operations, (0, 1))[0] == calls_of(seen.operations, (0, 1))[1]
    assert name_of_path(calls) != name_of_path(calls[1:])
    memory = {name: one.untyped_storage().data_ptr() for name, one in {"a": a, "b": b, "y": y, "c": c}.items()}
    assert {name for name, address in memory.items() if address in seen.reached_from(range(1))} == {"a", "y"}
    assert {name for name, address in memory.items() if address in seen.reached_from(range(1, 2))} == {"b", "c"}
    assert seen.written() == {memory["y"]}


def test_two_paths_differ_between_their_common_beginning_and_end() -> None:
    assert unlike(["a", "b", "c"], ["a", "x", "y", "c"]) == (range(1, 2), range(1, 3))
    assert unlike(["a", "b"], ["a", "a", "b"]) == (range(1, 1), range(1, 2))
    assert unlike(["a"], ["a"]) == (range(1, 1), range(1, 1))


def test_small_changes_show_in_floats_that_are_no_integers() -> None:
    assert is_fine(torch.tensor([0.5, float("inf")])) and is_fine(torch.tensor([1.0 + 0.5j]))
    assert not is_fine(torch.tensor([3, 4])) and not is_fine(torch.tensor([1.0, -1e9, float("-inf")]))


@pytest.mark.parametrize(
    ("taken", "status", "doubts"),
    [
        ([TakenPath("usual", True, True)], "fail", 0),
        ([TakenPath("usual", True, True), TakenPath("other", True, True)], "pass", 0),
        ([TakenPath("usual", True, True), TakenPath("other", False, True)], "fail", 0),
        ([TakenPath("usual", False, True), TakenPath("other", False, True)], "pass", 0),
        ([TakenPath("usual", True, True), TakenPath("other", True, False)], "pass", 1),
    ],
)
def test_a_round_on_the_path_with_equal_results_is_the_evidence(
    taken: list[TakenPath], status: str, doubts: int
) -> None:
    other = Departure(9, "further steps", "operation", "aten.mul", "aten.add", "aten.mul", path="other")
    horizon = Horizon("fail", steps=8, departure=other, paths=(other,))
    probes = Probes(horizon=horizon, replay=Replay("pass", reference="independent", checks=(Check("output"),)))
    found = with_rounds(probes, ComparedRounds(number=256, is_faithful=True, paths=tuple(taken)))
    assert found.horizon.status == status
    assert [check.result for check in found.replay.checks or ()].count(None) == doubts
