"""What Python froze at capture is found by capturing again, with what changed, its line, and what it froze."""

from __future__ import annotations

import pytest

from .conftest import DEVICES, TARGETS, Prove, Reports, codes_of, marked, probes_of

FROZEN = {
    # target: (code, text of the guilty line, attribute)
    "born_counting": ("GS702", "self.count = 1 if self.count is None else self.count + 1", "count"),
    "counter_in_a_dict": ("GS702", 'group["step"] += 1', "group['step']"),
    "shrinking": ("GS702", "self.left -= 1", "left"),
    "decayed": ("GS703", "self.weight.data = self.weight.data * 0.9", "weight"),
    "clock": ("GS702", "age = time.monotonic() - started", None),
    "private_random": ("GS504", "keep = source.random()", None),
    "shuffled": ("GS504", "random.shuffle(layers)", None),
}
READY = ["idle_counter", "offsets", "atomics"]
OTHERS = ["drawn_on_the_host", "ping_pong", "ping_pong_beside_a_draw", "every_fourth", "cooling"]
SLOW = ("counter_in_a_dict", "shrinking", "idle_counter", "atomics", "every_fourth", "decayed", "private_random")


@pytest.fixture(scope="module", params=DEVICES)
def reports(request: pytest.FixtureRequest, prove: Prove) -> Reports:
    return Reports(prove, f"{TARGETS / 'frozen.py'}:", request.param, [*FROZEN, *READY, *OTHERS], SLOW)


@pytest.mark.parametrize("name", marked(FROZEN, SLOW))
def test_the_line_that_changes_is_named_with_what_it_froze(name: str, reports: Reports) -> None:
    code, text, attribute = FROZEN[name]
    assert reports[name]["verdict"] == "not-ready"
    [finding] = [finding for finding in reports[name]["findings"] if finding["level"] == "error"]
    lines = (TARGETS / "frozen.py").read_text(encoding="utf-8").splitlines()
    assert (finding["code"], lines[finding["location"]["line"] - 1].strip()) == (code, text)
    assert finding["data"].get("attribute") == attribute
    assert finding["data"]["froze"]["what"] in ("scalar", "extent", "address")
    assert probes_of(reports[name])["twin"]["status"] == "fail"


@pytest.mark.parametrize("name", marked(READY, SLOW))
def test_what_freezes_nothing_is_ready(name: str, reports: Reports) -> None:
    assert reports[name]["verdict"] == "ready"
    assert codes_of(reports[name], "error", "warning") == []
    # Bytes between a kernel's arguments may differ on a GPU, without effect.
    assert probes_of(reports[name])["twin"]["status"] == "pass"


def test_a_draw_on_the_host_is_named_once(reports: Reports) -> None:
    """The line that uses the number draws nothing."""
    [finding] = [one for one in reports["drawn_on_the_host"]["findings"] if one["source"] != "scan"]
    assert (finding["code"], finding["level"], finding["data"]["op"]) == ("GS504", "error", "aten::rand")


@pytest.mark.parametrize("name", ["ping_pong", "ping_pong_beside_a_draw"])
def test_buffers_that_change_places_are_memory_that_a_graph_does_not_follow(name: str, reports: Reports) -> None:
    report = reports[name]
    assert report["verdict"] == "not-ready"
    (finding,) = [one for one in report["findings"] if one["source"] != "scan"]
    assert finding["code"] == "GS703"
    assert "changes places with another tensor" in finding["message"]
    assert {one["what"] for one in probes_of(report)["twin"]["differences"]} == {"address"}


@pytest.mark.slow
def test_a_branch_of_every_fourth_step_is_met(reports: Reports) -> None:
    twin = probes_of(reports["every_fourth"])["twin"]
    assert reports["every_fourth"]["verdict"] == "not-ready"
    assert {one["what"] for one in twin["differences"]} <= {"count", "operation"}


def test_a_number_that_only_the_first_of_all_captures_followed_is_named(reports: Reports) -> None:
    [finding] = [one for one in reports["cooling"]["findings"] if one["level"] == "error"]
    lines = (TARGETS / "frozen.py").read_text(encoding="utf-8").splitlines()
    assert (finding["code"], lines[finding["location"]["line"] - 1].strip()) == ("GS702", "self.steps += 1")
    assert "one capture has " in finding["why"] and "they differ from " in finding["why"]
    assert probes_of(reports["cooling"])["twin"]["causes"] == ["steps"]


def test_offsets_are_varied_and_stay_in_order(reports: Reports) -> None:
    assert probes_of(reports["offsets"])["replay"]["unvaried"] == []
