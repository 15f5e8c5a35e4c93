"""The 240 measured snippets as `forward` methods: scan finds those that break a capture and is silent on the others."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import ModuleType

import pytest

from .benchmark import ROOT, benchmark

ATLAS = ROOT / "tests" / "data" / "op_atlas.jsonl"
ENOUGH = 0.97


@pytest.fixture(scope="module")
def accuracy() -> ModuleType:
    return benchmark("atlas_accuracy")


@pytest.mark.parametrize("wrapping", ["buffers", "attributes"])
def test_scan_finds_the_bad_snippets_and_spares_the_clean(accuracy: ModuleType, wrapping: str, tmp_path: Path) -> None:
    result = accuracy.measure("atlas", wrapping, tmp_path)
    for row in result.wrong:
        print(f"{row.name}: expected {row.expected or 'nothing'}, found {row.found or 'nothing'}: {row.step!r}")
    assert result.recall >= ENOUGH
    assert result.silence >= ENOUGH


def test_every_snippet_has_a_family_and_the_codes_of_it() -> None:
    rows = [json.loads(line) for line in ATLAS.read_text(encoding="utf-8").splitlines()]
    assert len({row["name"] for row in rows}) == len(rows) == 240
    for row in rows:
        codes = [row["code"]] if isinstance(row["code"], str) else row["code"] or []
        families = [row["family"]] if isinstance(row["family"], str) else row["family"] or []
        assert all(re.fullmatch(r"GS[1-8]\d\d", code) for code in codes), row["name"]
        if "eager" in row:
            assert (families, codes) == (["invalid"], []), row["name"]
        else:
            assert families == sorted({code[:3] for code in codes}), row["name"]


def test_whatever_was_measured_to_fail_has_a_code() -> None:
    for row in (json.loads(line) for line in ATLAS.read_text(encoding="utf-8").splitlines()):
        failed = row.get("capture") == "fails" or "DIFF" in row.get("replay_vs_eager", ())
        assert row["code"] is not None or not failed, row["name"]
        if row["code"] is not None and not failed:
            assert row["judgement"].startswith("fails silently"), row["name"]
