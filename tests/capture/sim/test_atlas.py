"""The simulated device against what GPUs did (rules/ops/torch-X.Y.json): the op table, by aten name.

Where they differ, tests/data/op_exceptions.yaml says why; a difference without a reason fails, and so does a reason
without a difference.
"""

from __future__ import annotations

import contextlib
import io
import json
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from atlas import Outcome, run_row
from op_snippets import catalogue, measured, measured_files

from graphsafe.optable import OpTable
from graphsafe.optable.entries import version_matches

pytestmark = [pytest.mark.child, pytest.mark.slow]

EXCEPTIONS = Path(__file__).parents[2] / "data" / "op_exceptions.yaml"
RULES = Path(__file__).parents[3] / "rules"
Pair = tuple[str, Mapping[str, Any], Outcome]


@pytest.fixture(scope="module", params=measured_files(), ids=lambda path: path.stem)
def outcomes(request: pytest.FixtureRequest, table: OpTable) -> Iterator[list[Pair]]:
    """What each snippet did on a GPU and does simulated."""
    import torch

    # Dynamo, once it has compiled anything in this process, has switched the checks of distributions off.
    torch.distributions.Distribution.set_default_validate_args(True)
    found = []
    for name, entry in measured(request.param)["entries"].items():
        if "s.group" in entry["step"]:  # no simulated process has a process group
            continue
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            try:
                outcome = run_row(entry["step"], table)
            except Exception as error:
                outcome = Outcome("raises", error=f"{type(error).__name__}: {error}")
            found.append((name, entry, outcome))
    yield found


def exceptions() -> Mapping[str, str]:
    import torch

    read = yaml.safe_load(EXCEPTIONS.read_text(encoding="utf-8"))
    reasons: dict[str, str] = dict(read["simulated"])
    for spec, further in read["simulated_by_version"].items():
        if version_matches(torch.__version__, spec):
            reasons |= further
    return reasons


def is_version_of_table() -> bool:
    """Whether this is the build of torch that the reasons were written under; others differ in a few more or fewer."""
    import torch

    known = json.loads((RULES / "ops" / "aten-known.json").read_text(encoding="utf-8"))
    return bool(torch.__version__ == f"{known['torch']}+cpu")


def differs(entry: Mapping[str, Any], outcome: Outcome) -> str | None:
    """In what the simulated device differs. That it does not know is no difference."""
    if outcome.unknown:
        return None
    capture = "eager" if entry["eager"] is not None else entry["capture"]
    if outcome.capture != capture:
        return f"capture: {outcome.capture} {outcome.error}, measured {capture}"
    if capture == "fails" and entry.get("generator", outcome.generator) != outcome.generator:
        return f"generator: {outcome.generator}, measured {entry['generator']}"
    if capture == "ok" and "replays" in entry and tuple(entry["replays"]) != outcome.replay:
        return f"replays: {outcome.replay}, measured {entry['replays']}"
    return None


def test_the_simulated_device_does_what_the_gpu_did(outcomes: list[Pair]) -> None:
    reasons = exceptions()
    found = {name: what for name, entry, outcome in outcomes if (what := differs(entry, outcome)) is not None}
    print("\n".join(f"{name}: {what}" for name, what in found.items() if name not in reasons))
    assert set(found) - set(reasons) == set(), "without a reason in op_exceptions.yaml"
    if is_version_of_table():
        assert set(reasons) & {name for name, _, _ in outcomes} - set(found) == set(), "reasons for nothing"


def test_the_simulated_device_knows_nearly_all_of_what_rules_are_about(outcomes: list[Pair]) -> None:
    groups = {snippet.name: snippet.group for snippet in catalogue().snippets.values()}
    known = [not outcome.unknown for name, _, outcome in outcomes if groups[name] in ("atlas", "extra")]
    assert sum(known) >= 0.98 * len(known)


def test_never_calls_a_failing_capture_good(outcomes: list[Pair]) -> None:
    wrong = [
        name
        for name, entry, outcome in outcomes
        if entry.get("capture") == "fails" and outcome.capture == "ok" and not outcome.unknown
    ]
    assert set(wrong) <= set(exceptions())


def test_an_empty_graph_is_empty_on_both(outcomes: list[Pair]) -> None:
    for name, entry, outcome in outcomes:
        if outcome.capture == "ok" and not outcome.unknown and "nodes" in entry and name not in exceptions():
            assert (sum(entry["nodes"].values()) == 0) == (outcome.nodes == 0), name
