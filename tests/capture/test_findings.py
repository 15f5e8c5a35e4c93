"""Findings of captures that differ, from answers as the children give them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from graphsafe.capture.answers.build import Built
from graphsafe.capture.answers.events import Diagnosis, StepEvent
from graphsafe.capture.answers.probes import StateWrites, Watched
from graphsafe.capture.parent.finding_table import what_departed
from graphsafe.capture.parent.findings import findings_of
from graphsafe.capture.parent.probes import DeviceAnswers
from graphsafe.capture.shared.answers import Answers, written
from graphsafe.capture.shared.places import at_line, line_text
from graphsafe.report.model import CallSite, Finding
from graphsafe.report.probes import Probes
from graphsafe.report.probes.capture import Capture
from graphsafe.report.probes.horizon import Departure, Horizon
from graphsafe.report.probes.replay import Check, Replay
from graphsafe.report.probes.state import Change, State
from graphsafe.report.probes.twin import Difference, Twin
from graphsafe.rulebook.book import load_rulebook

FILE = str(Path(__file__))
AFTER = (CallSite(FILE, 3, "step"),)
"The line that reads what the other stream has made."
OTHER_MEMORY = Difference(0, "address", "aten::add", "self", "self in other memory", frames=AFTER)


@pytest.mark.parametrize("diagnosed", [True, False])
def test_work_on_another_stream_explains_other_memory_after_it(diagnosed: bool) -> None:
    escaped = StepEvent("allocation", "aten::mul", (CallSite(FILE, 2, "step"),))
    answers = Answers(written(Built(CallSite(FILE, 1, "step"))))
    if diagnosed:
        answers |= Answers(written(Diagnosis("foreign-stream", escaped)))
    twin = Twin("fail", differences=(OTHER_MEMORY,))
    probes = Probes(capture=Capture("pass"), replay=Replay("fail"), twin=twin)
    findings, _ = findings_of(DeviceAnswers("cuda:0", "capture", "not-ready", probes, answers), load_rulebook())
    found = [(one.code, one.location.line) for one in findings]
    assert found == ([("GS604", 2)] if diagnosed else [("GS702", 3)])
    assert not twin.explains


def test_state_that_a_library_changes_is_named_without_a_line() -> None:
    by_library = Change("o.state['old_dirs']", "rebound", None, None), Change("o.state['t']", "rebound", None, None)
    by_user = Change("mean", "rebound", None, None, frames=AFTER)
    probes = Probes(capture=Capture("pass"), replay=Replay("fail"), state=State("fail", changed=(*by_library, by_user)))
    answers = Answers(written(Built(CallSite(FILE, 1, "step"))))
    findings, limits = findings_of(DeviceAnswers("cuda:0", "capture", "not-ready", probes, answers), load_rulebook())
    assert [(one.code, one.location.line) for one in findings] == [("GS703", 3)]
    assert {limit.why for limit in limits} == {"no line of the user's code is known to change the state in `o`"}


def _findings(probes: Probes, *answers: object) -> list[Finding]:
    given = Answers(written(Built(CallSite(FILE, 1, "step"), has_refresh=True)))
    for one in answers:
        given |= Answers(written(one))
    return findings_of(DeviceAnswers("cuda:0", "capture", "not-ready", probes, given), load_rulebook())[0]


def test_other_sizes_after_a_mask_are_explained_by_the_mask() -> None:
    extent = StepEvent("extent", "aten::index", (CallSite(FILE, 2, "step"),), data={"mask": True})
    departure = Departure(2, "further steps", "shape", "aten.sort.default", "float [45]", "float [42]", AFTER)
    horizon = Horizon("fail", steps=1, departure=departure)
    found = _findings(
        Probes(capture=Capture("fail"), horizon=horizon), Watched((extent,)), Diagnosis("operation", extent)
    )
    assert [(one.code, one.location.line) for one in found] == [("GS202", 2)]
    alone = _findings(Probes(capture=Capture("pass"), horizon=horizon))
    assert [(one.code, one.location.line) for one in alone] == [("GS702", 3)]


@pytest.mark.parametrize(
    ("op", "called", "option"),
    [
        ("aten::_nested_tensor_from_mask_left_aligned", None, "enable_nested_tensor=False"),
        ("aten::_local_scalar_dense", "torch.amp.GradScaler.step", "fused=True"),
        ("aten::_local_scalar_dense", "torch.nn.utils.clip_grad_norm_", "leave out error_if_nonfinite=True"),
        ("aten::linalg_inv", None, "inv_ex"),
    ],
)
def test_a_call_that_waits_is_told_the_option_that_avoids_it(op: str, called: str | None, option: str) -> None:
    event = StepEvent("read" if called else "hidden-sync", op, AFTER, called=called)
    (found,) = _findings(Probes(capture=Capture("fail")), Watched((event,)), Diagnosis("operation", event))
    assert (found.code, option in found.fix) == ("GS106", True)


@pytest.mark.parametrize("method", ["item", "__bool__"])
@pytest.mark.parametrize("called", [None, "torch.Tensor.__contains__", "torch.nn.BatchNorm2d.forward"])
def test_a_read_inside_a_function_of_torch_is_told_with_that_function(method: str, called: str | None) -> None:
    event = StepEvent("read", "aten::_local_scalar_dense", AFTER, via=f"torch.Tensor.{method}", called=called)
    (found,) = _findings(Probes(capture=Capture("pass")), Watched((event,)))
    inside = called is not None and "BatchNorm" in called
    assert found.code == ("GS101" if method == "item" else "GS102")
    assert ("a device value inside `torch.nn.BatchNorm2d.forward`" in found.message) == inside
    assert ("give the function options" in found.fix) == inside


@pytest.mark.parametrize(
    ("names", "line"),
    [
        (["state weight in a later round", "state bias in a later round"], 3),
        (["state weight in a later round", "state mean in a later round"], 1),
        (["state weight in a later round", "output in a later round"], 1),
        (["state weight in a later round", "state unknown in a later round"], 1),
    ],
)
def test_replays_that_differ_are_reported_where_the_differing_state_is_written(names: list[str], line: int) -> None:
    mean = (CallSite(FILE, 2, "step"),)
    writes = StateWrites.of({"weight": AFTER, "bias": AFTER, "mean": mean})
    checks = tuple(Check(name, "different", False, 1.0, 0.0) for name in names)
    probes = Probes(capture=Capture("pass"), replay=Replay("fail", reference="independent", checks=checks))
    (found,) = _findings(probes, writes)
    assert (found.code, found.location.line) == ("GS704", line)


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("torch.cat([x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7], x[8]]).nonzero()", "….nonzero()`"),
        ("torch.cat([x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7], x[8]])[mask]", "…[mask]`"),
        ("torch.masked_select(torch.cat([x[0], x[1], x[2], x[3], x[4]]), mask[0:1000])", "…`"),
        ("x.nonzero()", "`x.nonzero()`"),
    ],
)
def test_a_long_expression_is_quoted_with_its_last_call(tmp_path: Path, code: str, text: str) -> None:
    file = tmp_path / "step.py"
    file.write_text(f"{code}\n", encoding="utf-8")
    event = StepEvent("extent", "aten::nonzero", (CallSite(str(file), 1, "step"),), (1, 0, 1, len(code)))
    (found,) = _findings(Probes(capture=Capture("pass")), Watched((event,)))
    message, _, after = found.message.partition(" has ")
    assert message.startswith(f"`{code[:11]}") and message.endswith(text) and after


def test_another_branch_with_the_same_operation_is_told_with_both_lines() -> None:
    departure = Departure(2, "further steps", "operation", "aten.mul", "aten.mul at a.py:2", "", frames=AFTER)
    here = what_departed(replace(departure, after=f"aten.mul{at_line(AFTER)}"))
    assert here.endswith(f"the capture runs aten.mul at a.py:2, but aten.mul{at_line(AFTER)} runs 2 steps later.")
    other = what_departed(replace(departure, after="aten.add"))
    assert f"but aten.add ({line_text(AFTER[-1])}) runs" in other
