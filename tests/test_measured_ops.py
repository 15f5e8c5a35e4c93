"""What was measured on GPUs (rules/ops/torch-X.Y.json) against the op table."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
FILES = sorted((ROOT / "rules" / "ops").glob("torch-*.json"))


def snippets() -> Mapping[str, str]:
    data = yaml.safe_load((ROOT / "scripts" / "op_snippets.yaml").read_text(encoding="utf-8"))
    return {name: step for group in ("atlas", "extra", "more") for name, step in data[group].items()}


@pytest.fixture(params=FILES, ids=lambda file: file.stem)
def measured(request: pytest.FixtureRequest) -> Iterator[Mapping[str, Any]]:
    yield json.loads(request.param.read_text(encoding="utf-8"))


def test_what_was_measured_is_what_the_snippets_say_today(measured: Mapping[str, Any]) -> None:
    steps = snippets()
    assert measured["schema"] == "graphsafe/measured-ops/1"
    assert list(measured["entries"]) == sorted(measured["entries"])
    for name, entry in measured["entries"].items():
        assert entry["step"] == steps[name], f"{name}: measure it again (scripts/measure_ops.py)"
