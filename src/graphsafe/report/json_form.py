"""The JSON form: what is written, and a saved report read back."""

from __future__ import annotations

import io
import json
import math
import re
import types
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from graphsafe.errors import RequestError
from graphsafe.report.model import PROBE_KEYS, REPORT_SCHEMA, REPORTS_SCHEMA, Report, in_order

_SURROGATE = re.compile("[\ud800-\udfff]")
"""Half a character, from a file name that is not UTF-8: cannot be encoded, but JSON has an escape for it."""


class ReportError(RequestError):
    """A saved report that cannot be read; the text is one line."""


_AS_THEY_ARE = frozenset((str, int, bool, type(None)))
"Asked first: nearly all that a report holds."


def render_json(reports: Report | Sequence[Report]) -> str:
    """A report by itself (`graphsafe/report/1`), or a sequence of any length (`graphsafe/reports/1`)."""
    if isinstance(reports, Report):
        whole = _lazily(reports)
    else:
        whole = {"schema": REPORTS_SCHEMA, "reports": [_lazily(report) for report in reports]}
    text = io.StringIO()
    json.dump(whole, text, indent=2, ensure_ascii=False, allow_nan=False, default=_plain)
    text.write("\n")
    return _SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", text.getvalue())


def as_json(report: Report) -> dict[str, Any]:
    """The report as JSON values: every key present, findings in order, NaN and infinity (which JSON lacks) as null."""
    written: dict[str, Any] = _plain(replace(report, findings=tuple(in_order(report.findings))))
    return written


def _lazily(report: Report) -> dict[str, Any]:
    """As `as_json`, but findings, which may be many, are converted one by one while they are written."""
    return {**as_json(replace(report, findings=())), "findings": in_order(report.findings)}


def read_reports(path: Path) -> Report | tuple[Report, ...]:
    """What a file holds: a report, or the reports of `capture --all`.

    Raises `ReportError` with one line that names the file and the first place where it is not a report.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ReportError(f"{path}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ReportError(f"{path}: not UTF-8 text") from error
    try:
        return parse_reports(text)
    except ReportError as error:
        raise ReportError(f"{path}: {error}") from error


def parse_reports(text: str) -> Report | tuple[Report, ...]:
    """As `read_reports`, from text; the error names no file."""
    try:
        saved = json.loads(text)
    except ValueError as error:
        raise ReportError(f"not JSON: {error}") from error
    except RecursionError as error:
        raise ReportError("not a report: nested too deeply") from error
    schema = saved.get("schema") if isinstance(saved, dict) else None
    if schema == REPORT_SCHEMA:
        report: Report = _read(Report, saved, "")
        return report
    if schema == REPORTS_SCHEMA:
        if not isinstance(saved.get("reports"), list):
            raise ReportError("reports: expected a list")
        return tuple(_read(Report, report, f"reports[{at}]") for at, report in enumerate(saved["reports"]))
    if isinstance(schema, str) and schema.startswith("graphsafe/report"):
        raise ReportError(f"schema {schema!r} is not one that this version reads ({REPORT_SCHEMA}, {REPORTS_SCHEMA})")
    raise ReportError("not a graphsafe report")


def _plain(value: Any) -> Any:
    kind = type(value)
    if kind in _AS_THEY_ARE:
        return value
    if is_dataclass(kind):
        read = {name: getattr(value, name) for name in _names(kind)}
        return {name: item if type(item) in _AS_THEY_ARE else _field(name, item) for name, item in read.items()}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


@cache
def _names(kind: type) -> Sequence[str]:
    return [field.name for field in fields(kind)]


def _field(name: str, value: Any) -> Any:
    if name == "probes":
        return {probe: _plain(_probe(keys, value.get(probe) or {})) for probe, keys in PROBE_KEYS.items()}
    if name in ("data", "settings"):
        return _plain({key: value[key] for key in sorted(value)})
    return _plain(value)


def _probe(keys: Sequence[str], found: Mapping[str, Any]) -> dict[str, Any]:
    """A probe with every key, unknown ones null. The status of a probe that reported nothing is `skipped`."""
    return {**dict.fromkeys(keys), "status": "skipped", **found}


@cache
def _hints(kind: type) -> Mapping[str, Any]:
    return get_type_hints(kind)


def _read(kind: Any, value: Any, where: str) -> Any:
    """`value` as the dataclass field type `kind`; `where` is its place in the file, as in `findings[2].location`."""
    if kind is Any:
        return value
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return None if value is None else _read(next(one for one in arguments if one is not type(None)), value, where)
    if origin is Literal:
        if value not in arguments:
            raise ReportError(f"{where}: expected one of {', '.join(arguments)}, found {_shown(value)}")
        return value
    if origin is tuple:
        items = _expect(list, value, where)
        return tuple(_read(arguments[0], item, f"{where}[{at}]") for at, item in enumerate(items))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        members = _expect(dict, value, where)
        return {key: _read(arguments[1], item, f"{where}.{key}") for key, item in members.items()}
    if is_dataclass(kind) and isinstance(kind, type):
        return _read_fields(kind, _expect(dict, value, where or "the report"), where)
    return _expect(kind, value, where)


def _read_fields(kind: type, members: dict[str, Any], where: str) -> Any:
    prefix = f"{where}." if where else ""
    hints = _hints(kind)
    for missing in (name for name in hints if name not in members and name not in _later(kind)):
        raise ReportError(f"{prefix}{missing}: missing")
    for unknown in (name for name in members if name not in hints):
        raise ReportError(f"{prefix}{unknown}: unknown key")
    there = {name: hint for name, hint in hints.items() if name in members}
    return kind(**{name: _read(hint, members[name], f"{prefix}{name}") for name, hint in there.items()})


@cache
def _later(kind: Any) -> frozenset[str]:
    """The fields that may have come after a report was written: their default says that it is not known."""
    made = (one.name for one in fields(kind) if one.default is not MISSING or one.default_factory is not MISSING)
    return frozenset(made)


_NAMES = {
    int: "a whole number",
    str: "text",
    list: "a list",
    dict: "an object",
    float: "a number",
    bool: "true or false",
}


def _expect(kind: type, value: Any, where: str) -> Any:
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ReportError(f"{where}: expected {_NAMES[kind]}, found {_shown(value)}")
    return value


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else f"{text[:37]}..."
