"""The JSON Schema of reports, shipped as report.schema.json beside this module."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

SCHEMA_PATH = Path(__file__).with_name("report.schema.json")


@cache
def report_schema() -> dict[str, Any]:
    """Of one report (`graphsafe/report/1`) or many (`graphsafe/reports/1`), in draft 2020-12."""
    schema: dict[str, Any] = json.loads(SCHEMA_PATH.read_text(encoding="utf-8"))
    return schema
