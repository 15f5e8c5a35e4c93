"""The folder of a run belongs to the program too: what it leaves there does no harm."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from graphsafe.rulebook.book import load_rulebook
from graphsafe.run.counters import Order
from graphsafe.run.facts import ProcessFacts
from graphsafe.run.parent.idle import Readings
from graphsafe.run.parent.merge import ledger_of
from graphsafe.run.parent.seen import seen_processes
from graphsafe.run.part import Part, note_start, read_parts, write_part
from tests.run.test_ranks import graph

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no FIFOs here")


def test_fifos_and_folders_in_the_place_of_parts_are_passed_over(tmp_path: Path) -> None:
    note_start(tmp_path, "1-a", "")
    facts = ProcessFacts(graphs=(graph(0, 10, 4).facts,))
    write_part(tmp_path, "1-a", facts)
    os.mkfifo(tmp_path / "1-a.counts")
    note_start(tmp_path, "2-b", "1-a")
    os.mkfifo(tmp_path / "2-b.json")
    note_start(tmp_path, "3-c", "1-a")
    (tmp_path / "3-c.json").write_text(json.dumps(["no facts"]), encoding="utf-8")
    os.mkfifo(tmp_path / "4-d.start")
    (tmp_path / "5-e.start").mkdir()

    parts = read_parts(tmp_path)

    assert {part.token: part.facts for part in parts} == {
        "1-a": facts,
        "2-b": None,
        "3-c": None,
    }
    assert [count.replays for part in parts for count in part.counts] == [0]


def test_processes_are_named_in_the_order_of_ranks_then_of_their_start() -> None:
    """Python begins to run in them in an order that depends on chance."""
    ranks = {"100-a": None, "10-b": 1, "11-c": 0, "9-d": None}
    parts = [
        Part(token, "1-x", begun, ProcessFacts(rank=rank, fault=token), (), Order())
        for begun, (token, rank) in enumerate(ranks.items(), 2)
    ]
    _, *seen = seen_processes([Part("1-x", "", 1, None, (), Order()), *parts])
    told = [(one.name, one.facts.fault) for one in seen]
    assert told == [("0.1", "11-c"), ("0.2", "10-b"), ("0.3", "9-d"), ("0.4", "100-a")]


def test_replays_of_graphs_that_a_cut_off_process_did_not_tell_are_counted() -> None:
    part = Part("1-a", "", 0, ProcessFacts(is_whole=False), (), Order(((0, 5), (2, 3), (0, 4))))
    ended = [replace(part, outlives=True), replace(part, facts=ProcessFacts())]
    ledgers = [ledger_of([one], ["python"], 1, load_rulebook(), Readings()) for one in (part, *ended)]
    why, *others = ([limit.why for limit in one.limits if limit.kind == "cut-off"] for one in ledgers)
    assert others == [[], []] and why[0].endswith("; 12 replays of 2 further graphs were counted")


def test_replays_of_inherited_graphs_are_counted_though_their_process_does_not_list_them() -> None:
    part = Part("1-a", "", 0, ProcessFacts(is_whole=True), (), Order(((0, 4), (1, 0))))
    alone = replace(part, order=Order(((0, 0),)))
    ledgers = [ledger_of([one], ["python"], 0, load_rulebook(), Readings()) for one in (part, alone)]
    whats = [[(limit.what, limit.why) for limit in one.limits if "inherited" in limit.what] for one in ledgers]
    assert [what for what, _ in whats[0]] == ["1 graph that process 0 has inherited"] and whats[1] == []
    assert whats[0][0][1].startswith("4 replays were counted")
