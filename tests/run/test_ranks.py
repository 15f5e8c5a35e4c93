"""Ranks that replay different graphs: the first replay at which they part, and what the ledger makes of it."""

from __future__ import annotations

import random
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from graphsafe.report.model import CallSite
from graphsafe.rulebook.book import load_rulebook
from graphsafe.run.counters import Count, Counters, Order, saved_counts
from graphsafe.run.facts import GraphFacts, ProcessFacts
from graphsafe.run.parent.findings import findings_of
from graphsafe.run.parent.ranks import first_difference, partings
from graphsafe.run.parent.seen import SeenGraph, SeenProcess
from tests.conftest import ValidReport
from tests.run.test_run import ledger_in, program, run


def graph(number: int, line: int, batch: int, **facts: Any) -> SeenGraph:
    known = GraphFacts(
        number=number,
        frames=(CallSite(__file__, line, "capture"),),
        span=None,
        stream="default stream",
        thread="MainThread",
        device="cuda:0",
        begun=0,
        seconds=0.0,
        nodes={"kernel": 1},
        key={"batch": str(batch), "scale": "1"},
    )
    return SeenGraph(str(number + 1), replace(known, **facts), Count(9, 1, 2))


def process(rank: int, runs: list[tuple[int, int]], *graphs: SeenGraph, whole: bool = True) -> SeenProcess:
    return SeenProcess(f"0.{rank + 1}", "0", ProcessFacts(rank=rank), graphs, Order(tuple(runs), whole))


PLAIN = (graph(0, 10, 4), graph(1, 10, 8))
SENDING = (graph(0, 10, 4, collectives=True), graph(1, 10, 8, collectives=True))


_OTHER_ORDER = "replay graphs with collectives in different orders, first at replay"


def told(*seen: SeenProcess) -> tuple[list[tuple[str, str]], list[str]]:
    findings, limits = findings_of(seen, load_rulebook())
    assert all(re.fullmatch(rf"rank \d and rank \d {_OTHER_ORDER} \d+", one.message) for one in findings)
    return [(one.code, one.why) for one in findings], [one.why for one in limits if one.kind == "ranks"]


def test_graphs_with_collectives_that_take_another_turn_are_an_error() -> None:
    findings, limits = told(process(0, [(0, 3), (1, 2)], *SENDING), process(1, [(0, 4), (1, 1)], *SENDING))
    assert [code for code, _ in findings] == ["GS614"] and limits == []
    assert "At replay 4 of graphs with collectives rank 0 replays graph 2 of " in findings[0][1]
    assert "(batch = 8), rank 1 graph 1 of" in findings[0][1] and "(batch = 4)." in findings[0][1]
    assert "scale" not in findings[0][1]


def test_graphs_without_collectives_between_them_do_not_count() -> None:
    graphs = (graph(0, 10, 4), graph(1, 20, 8, collectives=True))
    one, other = process(0, [(0, 3), (1, 2)], *graphs), process(1, [(1, 2)], *graphs)
    findings, limits = told(one, other)
    assert findings == [] and len(limits) == 1 and "at replay 1 rank 0 replays graph 1" in limits[0]


def test_groups_of_some_ranks_and_graphs_without_collectives_are_a_fact_only() -> None:
    grouped = tuple(graph(number, 10, number, collectives=True, subgroups=True) for number in (0, 1))
    for graphs in (PLAIN, grouped):
        findings, limits = told(process(0, [(0, 1)], *graphs), process(1, [(1, 1)], *graphs))
        assert findings == [] and len(limits) == 1 and "at replay 1 rank 0 replays graph 1 of" in limits[0]


def test_a_rank_that_is_ahead_is_no_difference() -> None:
    assert told(process(0, [(0, 7)], *SENDING), process(1, [(0, 5)], *SENDING)) == ([], [])


def test_ranks_that_cannot_be_compared_say_why() -> None:
    threads = (graph(0, 10, 4), graph(1, 10, 8, thread="Thread-1"))
    pairs = {
        "different graphs": (process(0, [], *PLAIN), process(1, [], graph(0, 30, 4), graph(1, 10, 8))),
        "different numbers": (process(0, [], *PLAIN), process(1, [], *PLAIN[:1])),
        "several threads": (process(0, [], *threads), process(1, [], *threads)),
        "started again": (process(0, [], *PLAIN), process(0, [], *PLAIN)),
        "only the first ones": (process(0, [], *PLAIN, whole=False), process(1, [], *PLAIN)),
    }
    for reason, pair in pairs.items():
        found, limits = partings(pair)
        assert found == [] and [reason in one.why for one in limits] == [True]


def test_one_difference_is_told_for_all_ranks_of_a_launch() -> None:
    found, _ = partings([process(rank, [(0, 3 - (rank == 2)), (1, 1)], *SENDING) for rank in (3, 1, 2, 0)])
    assert [(one.replay, [each.facts.rank for each in one.processes]) for one in found] == [(3, [0, 2])]


def test_the_first_difference_is_that_of_the_written_out_orders() -> None:
    seed = random.Random(1)
    for _ in range(300):
        one, other = ([(seed.randint(0, 2), seed.randint(1, 3)) for _ in range(seed.randint(0, 5))] for _ in range(2))
        flat = [[place for place, times in runs for _ in range(times)] for runs in (one, other)]
        steps = [number for number, (a, b) in enumerate(zip(*flat, strict=False), 1) if a != b]
        found = first_difference(one, other)
        assert (found and found[0]) == (steps[0] if steps else None)
        assert found is None or found[1:] == (flat[0][found[0] - 1], flat[1][found[0] - 1])


def test_the_order_outlives_the_process_and_a_file_that_is_none(tmp_path: Path) -> None:
    file = tmp_path / "counts"
    Counters(file)
    assert saved_counts(file, 1) == ([Count(0, 0, 0)], Order())
    file.write_bytes(b"\xff" * file.stat().st_size)
    assert saved_counts(file, 0)[1].runs == ()
    file.write_bytes(b"short")
    assert saved_counts(file, 0) == ([], Order())


PARTED = """
import os, sys, torch, torch.distributed as dist

rank = int(os.environ["LOCAL_RANK"])
dist.init_process_group("nccl")
torch.cuda.set_device(rank)
x = torch.ones(8, device="cuda")

def capture(batch):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=torch.cuda.Stream()):
        y = x * batch
        if sys.argv[1] == "sends":
            dist.all_reduce(y)
    return graph

graphs = [capture(batch) for batch in (4, 8)]
for step in range(6):
    graphs[step % 2 if rank or step != 3 else 0].replay()
dist.destroy_process_group()
"""


@pytest.mark.child
@pytest.mark.slow
@pytest.mark.parametrize("how", ["sends", "computes"])
def test_ranks_under_torchrun_are_compared(tmp_path: Path, valid_report: ValidReport, how: str) -> None:
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    ran = run(tmp_path, "--", *torchrun, program(tmp_path, PARTED), how)
    assert ran.returncode == 0, ran.stderr
    ledger = ledger_in(tmp_path, valid_report)
    found = [(one["code"], one["location"]["line"], one["data"]["replay"]) for one in ledger["findings"]]
    limits = [limit["why"] for limit in ledger["limits"] if limit["kind"] == "ranks"]
    text = "rank 0 replays graph 1 of program.py:11 (batch = 4), rank 1 graph 2 of program.py:11 (batch = 8)"
    if how == "sends":
        assert found == [("GS614", 11, 4)] and limits == [] and text in ledger["findings"][0]["why"]
    else:
        assert found == [] and limits == [f"at replay 4 {text}"]
