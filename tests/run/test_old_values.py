"""Graphs that go on with old weights, numbers and results, on the simulated device; sound code stands beside each."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from tests.conftest import ValidReport
from tests.run.test_run import PROGRAMS, expected, ledger_in, run

pytestmark = pytest.mark.child


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory, valid_report: ValidReport) -> Any:
    folder = tmp_path_factory.mktemp("old_values")
    text = (PROGRAMS / "old_values.py").read_text(encoding="utf-8")
    (folder / "old_values.py").write_text(text, encoding="utf-8")
    ran = run(folder, "--", sys.executable, "old_values.py")
    assert ran.stdout == "done\n" and ran.returncode == 0, ran.stderr
    return ledger_in(folder, valid_report)


def of(ledger: Any, code: str) -> list[Any]:
    return [finding for finding in ledger["findings"] if finding["code"] == code]


def test_every_fault_is_named_with_its_line_and_no_sound_code(ledger: Any) -> None:
    found = {(finding["code"], finding["location"]["line"]) for finding in ledger["findings"]}
    assert found == expected(PROGRAMS / "old_values.py")


def test_nothing_of_the_watch_failed(ledger: Any) -> None:
    assert not [limit for limit in ledger["limits"] if limit["kind"] == "internal"]


def test_a_refill_of_pinned_memory_names_the_copy_that_may_read_it(ledger: Any) -> None:
    first = of(ledger, "GS714")[0]
    line = first["location"]["line"]
    place = f"old_values.py:{line + 1}"
    assert f"the asynchronous copy at {place}, which reads it" in first["message"]
    assert first["data"]["replay"] == place and first["data"]["what"] == "pinned memory"
    fixes = [one["fix"].partition(" wait")[0] for one in of(ledger, "GS714")]
    assert fixes[:3] == ["have the host"] * 3 and "an event recorded after that copy before it writes" in first["fix"]
    assert fixes[3:] == ["have the writing stream"] * len(fixes[3:]) and "nor the host wait" in first["why"]


def test_weights_that_are_let_go_are_told_with_their_names_and_replays(ledger: Any) -> None:
    told = [one["data"] for one in of(ledger, "GS711") if one["data"]["status"] == "rebound"]
    assert sorted((one["what"][0], one["replays_since"]) for one in told) == [
        ("layer.weight", 1),
        ("layer.weight", 2),
        ("self.state", 3),
    ]


def test_lost_memory_is_told_at_the_line_that_made_it_or_its_successor(ledger: Any) -> None:
    told = {one["data"]["what"][0]: one["message"] for one in of(ledger, "GS711") if one["data"]["replays_since"] != 2}
    assert "which Masked.capture (old_values.py:" in told["mask"] and "freed when it returned" in told["mask"]
    assert "which a tensor of old_values.py:" in told["self.state"]
    assert "which a tensor of loaded_beside_the_old_one (old_values.py:" in told["layer.weight"]


def test_a_growing_tensor_is_a_note_with_its_cost(ledger: Any) -> None:
    (finding,) = of(ledger, "GS402")
    assert finding["level"] == "note" and "20 times" in finding["message"]
    assert finding["message"].startswith("`torch.cat(" if sys.version_info >= (3, 11) else "`")
    assert finding["data"]["bytes"] == sum(range(1, 21)) * 8 * 4


def test_numbers_that_were_frozen_are_told_with_both_values(ledger: Any) -> None:
    told = [
        (one["data"]["argument"], one["data"]["captured"], one["data"]["now"])
        for one in sorted(of(ledger, "GS713"), key=lambda one: int(one["location"]["line"]))
    ]
    assert told == [
        ("self.rate", "0.25", "0.125"),
        ("self.count", "5", "6"),
        ("self.window", "4", "6"),
        ("TEMPERATURE", "0.7", "0.9"),
        ("self.count", "1", "2"),
    ]


def test_two_graphs_that_fill_one_buffer_are_both_named(ledger: Any) -> None:
    (finding,) = of(ledger, "GS706")
    later = finding["location"]["line"] + 1
    assert f"old_values.py:{later} reads: both write the same buffer" in finding["why"]
    assert finding["message"].startswith("`guess` keeps")
    assert len(finding["data"]["graphs"]) == 2


def test_a_size_that_is_never_chosen_is_told_after_two_inputs(ledger: Any) -> None:
    (finding,) = of(ledger, "GS618")
    (graph,) = finding["data"]["graphs"]
    graphs = ledger["processes"][0]["graphs"]
    sizes = [one for one in graphs if one["captured"]["location"]["line"] == finding["location"]["line"]]
    assert [one["replays"] for one in sizes] == [2, 3, 0]
    assert sizes[2]["name"] == graph
