"""The small modules of this folder on the simulated device."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest.importorskip("torch")

from .agreement import Answer, Pace, ask, write
from .catalogue import Module, modules

pytestmark = [pytest.mark.child, pytest.mark.slow]


@pytest.fixture(scope="module")
def chosen() -> dict[str, Module]:
    return {module.case.name: module for module in modules() if module.simulated}


@pytest.fixture(scope="module")
def answers(chosen: dict[str, Module], tmp_path_factory: pytest.TempPathFactory) -> list[Answer]:
    folder = Path(os.environ.get("OUT", tmp_path_factory.getbasetemp()))
    pace = Pace(workers=2, budget=3600)
    found = ask([module.case for module in chosen.values()], "sim", pace, oracle=False)
    write(found, folder, "simulated-modules")
    return found


def test_nothing_is_ready_that_is_not(answers: list[Answer]) -> None:
    assert [answer.case.name for answer in answers if answer.verdict == "ready" != answer.truth] == []


def test_verdicts(answers: list[Answer]) -> None:
    assert [(answer.case.name, answer.verdict) for answer in answers if answer.verdict != answer.truth] == []


def test_codes_and_lines(answers: list[Answer]) -> None:
    blamed = [answer for answer in answers if answer.marks]
    missed = [answer.case.name for answer in blamed if not answer.code_named]
    assert len(missed) <= 0.03 * len(blamed), missed
