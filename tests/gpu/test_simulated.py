"""The small modules of this folder on the simulated device: some in each run, all with GRAPHSAFE_ALL_MODULES=1."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest.importorskip("torch")

from .agreement import Answer, Pace, ask, write
from .catalogue import Module, modules

ALL = os.environ.get("GRAPHSAFE_ALL_MODULES") == "1"
SOME = """
    polled_copy checked_embedding quantize gathered_experts cropped_cache padding_id slot_mapping appended_keys
    recurrent ping_pong planned_attention cached_rotary private_noise layer_drop clock_phase unjoined heads_view
    group_entry cycled_scales shrinking_copy born_counter dither approximate_gelu least_squares adam_on_host
    device_position counted_calls dropout_mlp aware_mask packed_pool zero_head kept_activation graph_convolution
""".split()
"One or more of each class of causes, and the sound modules that look most like them."


@pytest.fixture(scope="module")
def chosen() -> dict[str, Module]:
    found = {module.case.name: module for module in modules()}
    assert set(SOME) <= set(found)
    return {name: module for name, module in found.items() if ALL or name in SOME}


@pytest.fixture(scope="module")
def answers(chosen: dict[str, Module], tmp_path_factory: pytest.TempPathFactory) -> list[Answer]:
    folder = Path(os.environ.get("OUT", tmp_path_factory.getbasetemp()))
    pace = Pace(workers=2, budget=3600)
    found = ask([module.case for module in chosen.values()], "sim", pace, oracle=False)
    write(found, folder, "simulated-modules")
    return found


def test_nothing_is_ready_that_is_not(answers: list[Answer]) -> None:
    assert [answer.case.name for answer in answers if answer.verdict == "ready" != answer.truth] == []


def test_verdicts(answers: list[Answer], chosen: dict[str, Module]) -> None:
    expected = [answer for answer in answers if chosen[answer.case.name].simulated]
    assert [(answer.case.name, answer.verdict) for answer in expected if answer.verdict != answer.truth] == []


def test_codes_and_lines(answers: list[Answer], chosen: dict[str, Module]) -> None:
    blamed = [answer for answer in answers if answer.marks and chosen[answer.case.name].simulated]
    missed = [answer.case.name for answer in blamed if not answer.code_named]
    assert len(missed) <= 0.03 * len(blamed), missed
