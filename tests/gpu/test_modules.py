"""Small modules with one known cause each, and sound twins: what the oracle says of them, and what capture says.

All of them are asked about at once, many at a time; the table and each disagreement go to gpu-modules.log.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from .agreement import Answer, Pace, ask, summary, write  # noqa: E402
from .catalogue import modules  # noqa: E402

pytestmark = pytest.mark.gpu
WITH_ATOMICS = ["graph_convolution", "splatted_grid", "attention_graph", "packed_pool"]


@pytest.fixture(scope="module")
def answers() -> list[Answer]:
    cases = [module.case for module in modules()]
    atomics = [case for case in cases if case.name in WITH_ATOMICS]
    found = ask([*cases, *atomics * 4], "cuda:0", Pace(), oracle=True)
    folder = Path(os.environ.get("OUT", Path(__file__).parents[2]))
    write(found, folder, "gpu-modules")
    print(summary(found))
    return found


def test_the_oracle_confirms_every_label(answers: list[Answer]) -> None:
    labels = {a.case.name: (a.oracle or {}).get("label") for a in answers}
    unbuilt = [a.case.name for a in answers if (a.oracle or {}).get("why") == "build fails eagerly"]
    assert {**labels, **dict.fromkeys(unbuilt, "inconclusive")} == {a.case.name: a.truth for a in answers}


def test_verdicts(answers: list[Answer]) -> None:
    assert [(a.case.name, a.verdict) for a in answers if a.verdict != a.truth] == []


def test_codes_and_lines(answers: list[Answer]) -> None:
    blamed = [answer for answer in answers if answer.marks]
    missed = [answer.case.name for answer in blamed if not answer.code_named]
    assert len(missed) <= 0.03 * len(blamed), missed
