"""An input on the host is a constant of the graph: what replay would do with another value has to be tried."""

from __future__ import annotations

import pytest

from .conftest import DEVICES, TARGETS, Prove, Reports, marked, probes_of

UNVARIED = {
    "far_threshold": "args[1]",
    "stubborn": "args[1]",
    "queue": "args[1]",
    "records": "args[1]",
    "control": "args[1].rows",
}
UNSOUND = (
    "divided",
    "as_float",
    "flag",
    "threshold",
    "array",
    "buffers",
    "list",
    "rarely_binding",
    "lagged_flag",
    "namespace",
    "left_alone",
)
IN_OBJECTS = ("settings",)
SOUND = ("sigma", "guidance", "logged_flag", "request", "written")
SLOW = (
    *("as_float", "threshold", "buffers", "list", "lagged_flag", "namespace", "queue", "records", "control"),
    *("logged_flag", "request", "flag", "left_alone", "only_its_shape"),
)


@pytest.fixture(scope="module", params=DEVICES)
def reports(request: pytest.FixtureRequest, prove: Prove) -> Reports:
    names = (*UNSOUND, *IN_OBJECTS, *UNVARIED, "share", "unread", "only_its_shape", *SOUND)
    return Reports(prove, f"{TARGETS}/host_inputs.py:build_", request.param, names, SLOW)


@pytest.mark.parametrize("name", marked((*UNSOUND, *IN_OBJECTS), SLOW))
def test_a_step_that_reads_the_host_is_not_ready(reports: Reports, name: str) -> None:
    assert reports[name]["verdict"] == "not-ready"


@pytest.mark.parametrize("name", marked(UNVARIED, SLOW))
def test_a_host_input_that_cannot_be_varied_forbids_ready(reports: Reports, name: str) -> None:
    assert reports[name]["verdict"] == "inconclusive"
    assert probes_of(reports[name])["replay"]["unvaried_host"] == [UNVARIED[name]]


def test_values_that_lead_to_no_number_accuse_nobody(reports: Reports) -> None:
    # The step reads the array, but no value that was tried changes an output. So nothing is known of other values.
    assert reports["share"]["verdict"] == "inconclusive" and reports["share"]["findings"] == []


@pytest.mark.parametrize("name", marked(("unread", "only_its_shape"), SLOW))
def test_an_input_that_the_step_does_not_read_is_harmless(reports: Reports, name: str) -> None:
    assert reports[name]["verdict"] == "ready"
    assert ("args[1]", "no output depends on it") in [(one["what"], one["why"]) for one in reports[name]["limits"]]


@pytest.mark.parametrize("name", marked(SOUND, SLOW))
def test_constants_on_the_device_are_varied(reports: Reports, name: str) -> None:
    assert reports[name]["verdict"] == "ready"
    assert probes_of(reports[name])["replay"]["varied"] > 0


def test_python_numbers_in_the_arguments_are_named(reports: Reports) -> None:
    limits = [(limit["kind"], limit["what"]) for limit in reports["guidance"]["limits"]]
    assert ("constant", "args[2]") in limits
