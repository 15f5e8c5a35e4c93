"""An input on the host is a constant of the graph: what replay would do with another value has to be tried."""

from __future__ import annotations

import pytest

from .conftest import DEVICES, TARGETS, Prove, Report, probes_of

UNVARIED = {"stubborn": "args[1]", "queue": "args[1]", "records": "args[1]", "control": "args[1].rows"}
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
)
IN_OBJECTS = ("settings",)
SOUND = ("sigma", "guidance", "logged_flag", "request")


@pytest.fixture(scope="module", params=DEVICES)
def reports(request: pytest.FixtureRequest, prove: Prove) -> dict[str, Report]:
    names = (*UNSOUND, *IN_OBJECTS, *UNVARIED, "share", *SOUND)
    found = prove([f"{TARGETS}/host_inputs.py:build_{name}" for name in names], request.param)
    return dict(zip(names, found, strict=True))


@pytest.mark.parametrize("name", (*UNSOUND, *IN_OBJECTS))
def test_a_step_that_reads_the_host_is_not_ready(reports: dict[str, Report], name: str) -> None:
    assert reports[name]["verdict"] == "not-ready"


@pytest.mark.parametrize("name", UNVARIED)
def test_a_host_input_that_cannot_be_varied_forbids_ready(reports: dict[str, Report], name: str) -> None:
    assert reports[name]["verdict"] == "inconclusive"
    assert probes_of(reports[name])["replay"]["unvaried_host"] == [UNVARIED[name]]


def test_values_that_lead_to_no_number_accuse_nobody(reports: dict[str, Report]) -> None:
    assert reports["share"]["verdict"] == "ready" and reports["share"]["findings"] == []


@pytest.mark.parametrize("name", SOUND)
def test_constants_on_the_device_are_varied(reports: dict[str, Report], name: str) -> None:
    assert reports[name]["verdict"] == "ready"
    assert probes_of(reports[name])["replay"]["varied"] > 0


def test_python_numbers_in_the_arguments_are_named(reports: dict[str, Report]) -> None:
    limits = [(limit["kind"], limit["what"]) for limit in reports["guidance"]["limits"]]
    assert ("constant", "args[2]") in limits
