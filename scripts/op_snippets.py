"""The snippets of scripts/op_snippets.yaml, and what was measured of them (rules/ops/torch-X.Y.json)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
SNIPPETS = ROOT / "scripts" / "op_snippets.yaml"
MEASURED = ROOT / "rules" / "ops"
MEASURED_SCHEMA = "graphsafe/measured-ops/1"
GROUPS = ("atlas", "extra", "more")


@dataclass(frozen=True, slots=True)
class Snippet:
    name: str
    group: str
    "One of GROUPS."
    step: str
    codes: tuple[str, ...]
    "The codes of which one is right; none where nothing breaks a capture or its replay."
    judgement: str | None
    "Why those codes, or none, where what was measured does not say it alone."


@dataclass(frozen=True, slots=True)
class Catalogue:
    snippets: Mapping[str, Snippet]
    "By name, in the order of the file."
    tensors: Mapping[str, str]
    "The expressions that make attributes of `s`: tensors on the device,"
    host: Mapping[str, str]
    "values on the host,"
    objects: Mapping[str, str]
    "and whatever else."
    varied: Mapping[str, str]
    "The expressions for their next values."


@cache
def catalogue() -> Catalogue:
    data = yaml.safe_load(SNIPPETS.read_text(encoding="utf-8"))
    snippets = {}
    for group in GROUPS:
        for name, step in data[group].items():
            codes = data["codes"].get(name, ())
            codes = (codes,) if isinstance(codes, str) else tuple(codes)
            snippets[name] = Snippet(name, group, step, codes, data["judgements"].get(name))
    return Catalogue(snippets, data["tensors"], data["host"], data["objects"], data["varied"])


def measured_files() -> list[Path]:
    """rules/ops/torch-X.Y.json, by version."""
    return sorted(
        MEASURED.glob("torch-*.json"),
        key=lambda path: [int(part) for part in path.stem.removeprefix("torch-").split(".")],
    )


def measured(path: Path) -> Mapping[str, Any]:
    """One of them: `torch`, `device` and `entries` by name (scripts/measure_ops.py says what an entry holds)."""
    data: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    if data["schema"] != MEASURED_SCHEMA:
        raise ValueError(f"{path}: its schema is not {MEASURED_SCHEMA}")
    return data


def breaks(entry: Mapping[str, Any]) -> bool | None:
    """Whether a measured step breaks a capture or its replay; `None` where it does not even run eagerly."""
    if entry["eager"] is not None or entry.get("capture") is None:
        return None
    return entry["capture"] != "ok" or any(replay != "same" for replay in entry.get("replays", ()))
