"""The simulated device against what an H200 did, row by row of the measured atlas."""

from __future__ import annotations

import contextlib
import io
import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from atlas import Outcome, run_row

from graphsafe.optable import OpTable

DATA = Path(__file__).parents[2] / "data"
AGREEMENT = 0.95


def _measured(row: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
    if "eager" in row:
        return "eager", ()
    return row["capture"], tuple(row.get("replay_vs_eager", ()))


def _agrees(row: Mapping[str, Any], outcome: Outcome) -> bool:
    capture, replay = _measured(row)
    if outcome.unknown or outcome.capture != capture:
        return False
    if capture == "fails" and row.get("rng_afterwards", outcome.generator) != outcome.generator:
        return False
    return capture != "ok" or not replay or replay == outcome.replay


@pytest.fixture(scope="module")
def outcomes(table: OpTable) -> list[tuple[Mapping[str, Any], Outcome]]:
    files = [DATA / "op_atlas.jsonl", DATA / "op_extra.jsonl"]
    rows = [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    found = []
    for row in rows:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            found.append((row, run_row(row["step"], table)))
    return found


def test_agrees_with_the_gpu(outcomes: list[tuple[Mapping[str, Any], Outcome]]) -> None:
    agree = [row for row, outcome in outcomes if _agrees(row, outcome)]
    unknown = [row for row, outcome in outcomes if outcome.unknown]
    print(f"\n{len(agree)} of {len(outcomes)} rows agree, {len(unknown)} unknown")
    print(f"{'row':34} {'H200':22} simulated")
    for row, outcome in outcomes:
        if not _agrees(row, outcome):
            capture, replay = _measured(row)
            simulated = f"{outcome.capture} {' '.join(outcome.replay)} {outcome.error} {' '.join(outcome.unknown)}"
            print(f"{row['name']:34} {capture} {' '.join(replay):16} {simulated}")
    assert len(agree) >= AGREEMENT * len(outcomes)


def test_never_calls_a_failing_capture_good(outcomes: list[tuple[Mapping[str, Any], Outcome]]) -> None:
    wrong = [
        row["name"]
        for row, outcome in outcomes
        if _measured(row)[0] == "fails" and outcome.capture == "ok" and not outcome.unknown
    ]
    assert wrong == []


def test_an_empty_graph_is_empty_on_both(outcomes: list[tuple[Mapping[str, Any], Outcome]]) -> None:
    for row, outcome in outcomes:
        if outcome.capture == "ok" and "graph_nodes" in row:
            measured = row["graph_nodes"] is not None and sum(row["graph_nodes"].values()) == 0
            assert measured == (outcome.nodes == 0), row["name"]
