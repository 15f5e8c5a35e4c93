"""Checks a saved report against the shipped JSON Schema.

A report may come from anybody. If it passes, it has the keys and types that the formats read. Only the keywords that
this schema uses are implemented.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Literal

from graphsafe.errors import RequestError
from graphsafe.report.text import printable, without_commands

Part = Mapping[str, Any]
"""A part of the schema."""

_TYPES: Mapping[str, tuple[tuple[type, ...], str]] = {
    "integer": ((int,), "a whole number"),
    "number": ((int, float), "a number"),
    "string": ((str,), "text"),
    "array": ((list,), "a list"),
    "object": ((dict,), "an object"),
    "boolean": ((bool,), "true or false"),
    "null": ((type(None),), "null"),
}
_LARGEST = 2**63
"The largest number that a report may contain. A larger one cannot always be converted to a float or printed."
_DEEPEST = 64
"Lists and objects may be nested in at most this many levels."


class ReportError(RequestError):
    """Raised if a saved report cannot be read. The message is one printable line."""

    def __init__(self, line: str) -> None:
        super().__init__(without_commands(printable(line)))


def check(saved: Any, kind: Literal["report", "ledger"], where: str) -> None:
    """Raise ReportError if `saved` is not a report (or a ledger). The message names the first wrong value.

    `saved` is parsed JSON, and `where` is its path in the file.
    """
    _check_values(saved, 0)
    _check(saved, _definition(kind), where)


def _check_values(value: Any, depth: int) -> None:
    """Raise ReportError for numbers that are too large and for nesting that is too deep, even if the schema allows any
    value."""
    if isinstance(value, (dict, list)):
        if depth == _DEEPEST:
            raise ReportError("not a report: nested too deeply")
        for item in value.values() if isinstance(value, dict) else value:
            _check_values(item, depth + 1)
    elif isinstance(value, (int, float)) and not abs(value) <= _LARGEST:  # NaN is refused too
        raise ReportError("not a report: contains a number that is too large")


def _check(value: Any, part: Part, where: str) -> None:
    part = _followed(part)
    if "oneOf" in part:
        if value is not None:  # every `oneOf` of the schema is a type or null
            _check(value, next(one for one in part["oneOf"] if one.get("type") != "null"), where)
        elif not _takes_null(part):
            raise ReportError(f"{where}: expected an object, found null")
        return
    allowed = part.get("enum") or ([part["const"]] if "const" in part else None)
    if allowed is not None and not any(type(value) is type(one) and value == one for one in allowed):
        names = ", ".join("null" if one is None else str(one) for one in allowed)
        raise ReportError(f"{where}: expected one of {names}, found {_shown(value)}")
    if "type" in part:
        _check_type(value, part["type"], where)
    # Not `search`: in Python, `$` also matches before a last line break.
    if isinstance(value, str) and "pattern" in part and re.fullmatch(part["pattern"], value) is None:
        raise ReportError(f"{where}: not of the form {part['pattern']}, found {_shown(value)}")
    if isinstance(value, int) and value < part.get("minimum", value):
        raise ReportError(f"{where}: less than {part['minimum']}, found {value}")
    if isinstance(value, list) and "items" in part:
        for at, item in enumerate(value):
            _check(item, part["items"], f"{where}[{at}]")
    if isinstance(value, dict):
        _check_members(value, part, where)


def _check_type(value: Any, kinds: str | list[str], where: str) -> None:
    names = [kinds] if isinstance(kinds, str) else kinds
    for name in names:
        # In Python, True is an int. In JSON, it is not a number.
        if isinstance(value, _TYPES[name][0]) and (name == "boolean" or not isinstance(value, bool)):
            return
    raise ReportError(f"{where or 'the report'}: expected {_TYPES[names[0]][1]}, found {_shown(value)}")


def _check_members(members: Mapping[str, Any], part: Part, where: str) -> None:
    prefix = f"{where}." if where else ""
    known, further = part.get("properties", {}), part.get("additionalProperties", True)
    for name in part.get("required", ()):
        if name not in members and not _may_lack(part, name):
            raise ReportError(f"{prefix}{name}: missing")
    for name, value in members.items():
        if name in known:
            _check(value, known[name], f"{prefix}{name}")
        elif further is False:
            raise ReportError(f"{prefix}{name}: unknown key")
        elif further is not True:
            _check(value, further, f"{prefix}{name}")
    for condition in _conditions(members, part):
        _check_members(members, condition, where)


def _conditions(members: Mapping[str, Any], part: Part) -> Iterator[Part]:
    if "if" in part:
        try:
            _check_members(members, part["if"], "")
        except ReportError:
            yield part["else"]
        else:
            yield part["then"]


def _may_lack(part: Part, name: str) -> bool:
    """Return whether an older report may lack a key.

    This is so if the key has a default, or if the key may be null and unknown keys are allowed.
    """
    member = _followed(part["properties"][name])
    return "default" in member or (part.get("additionalProperties", True) is True and _takes_null(member))


def _takes_null(part: Part) -> bool:
    kinds = part.get("type", ())
    return (
        kinds == "null"
        or (isinstance(kinds, list) and "null" in kinds)
        or None in part.get("enum", ())
        or any(_takes_null(one) for one in part.get("oneOf", ()))
        or not part.keys() & {"type", "enum", "const", "oneOf"}
    )


def _followed(part: Part) -> Part:
    return {**_definition(part["$ref"]), **part} if "$ref" in part else part


@cache
def _definition(reference: str) -> Part:
    from graphsafe.report.schema import report_schema  # imports all probes, which a scan does not need

    found: Part = report_schema()["$defs"][reference.rpartition("/")[2]]
    return found


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
