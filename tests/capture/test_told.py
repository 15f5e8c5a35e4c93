"""What is told of a step: the cause before the symptom, and the repair that belongs to it."""

from __future__ import annotations

import pytest

from graphsafe.rulebook.book import load_rulebook

from .conftest import DEVICES, TARGETS, Prove, Report

NAMES = ["adamw", "growing_dictionary", "bounded_list", "unreached"]
FILE = TARGETS / "told.py"


@pytest.fixture(scope="module", params=DEVICES)
def reports(request: pytest.FixtureRequest, prove: Prove) -> dict[str, Report]:
    found = prove([f"{FILE}:{name}" for name in NAMES], request.param)
    return dict(zip(NAMES, found, strict=True))


def told(report: Report) -> list[tuple[str, str]]:
    return [(finding["code"], finding["level"]) for finding in report["findings"] if finding["code"] != "GS401"]


@pytest.mark.child
def test_an_optimizer_without_capturable_is_told_how_to_make_it(reports: dict[str, Report]) -> None:
    report = reports["adamw"]
    assert told(report) == [("GS802", "error")]
    finding = next(one for one in report["findings"] if one["code"] == "GS802")
    assert "capturable=True" in finding["fix"] and "optimizer.step()" in finding["message"]


@pytest.mark.child
def test_the_line_that_grows_is_the_cause_and_no_definition_is_blamed(reports: dict[str, Report]) -> None:
    report = reports["growing_dictionary"]
    assert report["verdict"] == "not-ready" and told(report) == [("GS402", "error")]
    (finding,) = [one for one in report["findings"] if one["code"] == "GS402"]
    assert "seen[len(seen)] = x.sum()" in finding["message"] and "dictionary" in finding["why"]


@pytest.mark.child
def test_a_list_of_numbers_is_no_buffer_that_grows(reports: dict[str, Report]) -> None:
    report = reports["bounded_list"]
    assert report["verdict"] == "ready" and told(report) == [("GS702", "note")]


@pytest.mark.child
def test_a_prediction_for_a_line_that_did_not_run_is_a_note_beside_ready(reports: dict[str, Report]) -> None:
    report = reports["unreached"]
    assert report["verdict"] == "ready" and told(report) == [("GS202", "note")]
    assert report["findings"][0]["status"] == "not-executed"


def test_the_reasons_of_a_buffer_are_sentences() -> None:
    rules = load_rulebook().rules
    assert "so replays are right" in rules["GS401"].short_why
