"""The JSON Schema of reports.

It is `report.schema.json` beside this module, in a shorter form. The parts for the probes and the pool are made from
their data classes.
"""

from __future__ import annotations

import json
import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from graphsafe.report.pool import Pool
from graphsafe.report.probes import PROBES
from graphsafe.report.probes.probe import is_later, is_unreported
from graphsafe.report.reading import hints_of

_FILE = Path(__file__).with_name("report.schema.json")
_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number"}


@cache
def report_schema() -> dict[str, Any]:
    """Return the schema of one report (`graphsafe/report/1`), of several reports, and of a ledger, in draft 2020-12."""
    schema: dict[str, Any] = _completed(json.loads(_FILE.read_text(encoding="utf-8")))
    schema["$defs"]["probes"] = {
        "description": "The results of each probe. A probe may contain keys that are not listed here.",
        "type": "object",
        # An older report may lack a newer probe, because that probe did not run.
        "properties": {name: {**_schema_of(kind), "default": {"status": "skipped"}} for name, kind in PROBES.items()},
        "required": list(PROBES),
        "additionalProperties": False,
    }
    pool = "All ready buckets captured in one pool, the largest first, and replayed in mixed order."
    schema["$defs"]["pool"] = {"description": pool, **_schema_of(Pool)}
    return schema


def schema_text() -> str:
    return json.dumps(report_schema(), indent=2, ensure_ascii=False) + "\n"


def _completed(part: Any) -> Any:
    """Return a part of the file in full. A part with properties is an object that requires all of them and allows no
    others, unless the part itself says what it requires. `nullable` holds the form of a value that may also be null."""
    if isinstance(part, list):
        return [_completed(one) for one in part]
    if not isinstance(part, dict):
        return part
    is_short = "properties" in part and "required" not in part
    whole: dict[str, Any] = {"type": "object"} if is_short else {}
    for key, value in part.items():
        if key == "nullable":
            whole["oneOf"] = [_completed(value), {"type": "null"}]
        else:
            whole[key] = value if key in ("if", "then", "else") else _completed(value)
        if key == "properties" and is_short:
            whole |= {"required": list(value), "additionalProperties": False}
    return whole


def _schema_of(kind: Any) -> dict[str, Any]:
    """Return the JSON schema for the values of a field of this type."""
    origin, arguments = get_origin(kind), get_args(kind)
    if kind in _TYPES:
        return {"type": _TYPES[kind]}
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin in (Union, types.UnionType):
        [inner] = [one for one in arguments if one is not type(None)]
        schema = _schema_of(inner)
        if set(schema) == {"type"}:
            return {"type": [schema["type"], "null"]}
        return {"enum": [*schema["enum"], None]} if "enum" in schema else {"oneOf": [schema, {"type": "null"}]}
    if origin is tuple:
        return {"type": "array", "items": _schema_of(arguments[0])}
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": _schema_of(arguments[1])}
    if isinstance(kind, type) and is_dataclass(kind):
        return {
            "type": "object",
            "properties": {
                one.name: _schema_of(hints_of(kind)[one.name]) for one in fields(kind) if not is_unreported(one)
            },
            "required": [one.name for one in fields(kind) if not is_later(one)],
            "additionalProperties": True,
        }
    return {}
