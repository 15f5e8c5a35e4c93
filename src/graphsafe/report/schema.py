"""The JSON Schema of reports and ledgers, made from their data classes.

`report.schema.json` beside this module contains the parts that belong to no class. In it, null is the place of a
class's schema. Under `additions`, it contains further keywords for the schemas of classes and fields.
"""

from __future__ import annotations

import json
import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from graphsafe.report import model
from graphsafe.report.ledger import model as ledger
from graphsafe.report.pool import Pool
from graphsafe.report.probes import PROBES
from graphsafe.report.probes.probe import is_later, is_unreported
from graphsafe.report.reading import hints_of

_FILE = Path(__file__).with_name("report.schema.json")
_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number"}
_NAMED: Mapping[Any, str] = {
    model.Verdict: "verdict",
    model.Level: "level",
    model.Environment: "environment",
    model.Location: "location",
    model.Location | None: "place",
    model.CallSite: "call_site",
    model.Edit: "edit",
    model.Finding: "finding",
    model.Limit: "limit",
    model.Bucket: "bucket",
    model.DeviceResult: "device",
    ledger.Outside: "outside",
    ledger.Graph: "graph",
    ledger.Failed: "failed_capture",
    ledger.Wait: "wait",
    ledger.Process: "process",
    ledger.Ledger: "ledger",
    model.Report: "report",
    model.Plan: "plan",
}
"Type -> its name in the schema. All other types are written where they are used."
_COMPLETE = (model.Plan, model.Segment)
"Classes of which every older report has all keys, although their fields have defaults."
_FORMS = frozenset(("type", "$ref", "oneOf", "enum", "const"))
"If an addition contains one of these keywords, it replaces the schema that is made from the type."
Additions = Mapping[str, Mapping[str, Any]]
"Name of a class, or `Class.field` -> keywords for the schema."


@cache
def report_schema() -> dict[str, Any]:
    """Return the schema of one report (`graphsafe/report/1`), of several reports, and of a ledger, in draft 2020-12."""
    schema: dict[str, Any] = json.loads(_FILE.read_text(encoding="utf-8"))
    additions = schema.pop("additions")
    for kind, name in _NAMED.items():
        if schema["$defs"][name] is None:
            schema["$defs"][name] = _closed_object(kind, additions)
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


def _schema_of(kind: Any, additions: Additions | None = None) -> dict[str, Any]:
    """Return the JSON schema for the values of a field of this type.

    The classes of probes get no additions, and their objects may have further keys.
    """
    origin, arguments = get_origin(kind), get_args(kind)
    if additions is not None and kind in _NAMED:
        return {"$ref": f"#/$defs/{_NAMED[kind]}"}
    if kind in _TYPES:
        return {"type": _TYPES[kind]}
    if origin is Literal:
        return {"enum": list(arguments)} if len(arguments) > 1 or additions is None else {"const": arguments[0]}
    if origin in (Union, types.UnionType):
        [inner] = [one for one in arguments if one is not type(None)]
        schema = _schema_of(inner, additions)
        if set(schema) == {"type"}:
            return {"type": [schema["type"], "null"]}
        return {"enum": [*schema["enum"], None]} if "enum" in schema else {"oneOf": [schema, {"type": "null"}]}
    if origin is tuple:
        return {"type": "array", "items": _schema_of(arguments[0], additions)}
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": _schema_of(arguments[1], additions)}
    if isinstance(kind, type) and is_dataclass(kind):
        return _object(kind) if additions is None else _closed_object(kind, additions)
    return {}


def _object(kind: type) -> dict[str, Any]:
    hints = hints_of(kind)
    return {
        "type": "object",
        "properties": {one.name: _schema_of(hints[one.name]) for one in fields(kind) if not is_unreported(one)},
        "required": [one.name for one in fields(kind) if not is_later(one)],
        "additionalProperties": True,
    }


def _closed_object(kind: type, additions: Additions) -> dict[str, Any]:
    """Return the schema of a class of reports. It requires all keys and allows no others."""
    properties = {}
    for one in fields(kind):
        added = additions.get(f"{kind.__name__}.{one.name}", {})
        is_whole = not _FORMS.isdisjoint(added)
        form = dict(added) if is_whole else _described(_schema_of(hints_of(kind)[one.name], additions), added)
        default = [] if one.default == () else one.default
        if one.default_factory is not MISSING:
            default = one.default_factory()
        if default is not MISSING and "const" not in form and kind not in _COMPLETE:
            form["default"] = default
        properties[one.name] = form
    whole = {"properties": properties, "required": list(properties), "additionalProperties": False}
    return {"type": "object", **_described(whole, additions.get(kind.__name__, {}))}


def _described(form: Mapping[str, Any], added: Mapping[str, Any]) -> dict[str, Any]:
    """Return a form with what is added to it. A description comes first."""
    first = {"description": added["description"]} if "description" in added else {}
    return {**first, **form, **added}
