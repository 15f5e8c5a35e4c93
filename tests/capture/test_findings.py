"""Findings of captures that differ, from answers as the children give them."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphsafe.capture.answers.build import Built
from graphsafe.capture.answers.events import Diagnosis, StepEvent
from graphsafe.capture.answers.probes import Diagnosed
from graphsafe.capture.parent.findings import findings_of
from graphsafe.capture.parent.probes import DeviceAnswers
from graphsafe.capture.shared.answers import Answers, written
from graphsafe.report.model import CallSite
from graphsafe.report.probes import Probes
from graphsafe.report.probes.capture import Capture
from graphsafe.report.probes.replay import Replay
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
        answers |= Answers(written(Diagnosed(Diagnosis("foreign-stream", escaped))))
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
