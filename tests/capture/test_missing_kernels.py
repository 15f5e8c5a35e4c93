"""Operations that the CPU computes and CUDA refuses are refused by the simulated device too."""

from __future__ import annotations

import json
from pathlib import Path

from graphsafe.rulebook.book import load_rulebook

from .conftest import TARGETS, Prove

MEASURED = Path(__file__).parents[2] / "rules" / "ops" / "no-cuda-kernel-2.11.json"


def test_an_integer_product_fails_eagerly(prove: Prove) -> None:
    report = prove([f"{TARGETS}/silent.py:integer_product"], "sim:0")[0]
    assert report["verdict"] == "inconclusive"
    assert any("no CUDA kernel for int64" in limit["why"] for limit in report["limits"])


def test_the_table_holds_what_was_measured() -> None:
    measured = json.loads(MEASURED.read_text(encoding="utf-8"))["no_kernel"]
    table = load_rulebook().ops
    for name, dtypes in measured.items():
        entry = table.aten(name)
        assert entry is not None and list(entry.no_kernel) == dtypes
