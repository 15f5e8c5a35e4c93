"""The JSON format: writes reports, and reads saved reports."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphsafe.files import read_regular
from graphsafe.report.model import REPORT_SCHEMA, REPORTS_SCHEMA, Report, in_order
from graphsafe.report.reading import plain, read
from graphsafe.report.shape import ReportError, check
from graphsafe.report.text import BIDI_CONTROLS

if TYPE_CHECKING:
    from graphsafe.report.ledger.model import Ledger

MAX_SAVED = 256_000_000
"The largest size in bytes of a saved report."
_TO_ESCAPE = re.compile(f"[{BIDI_CONTROLS}\ud800-\udfff]")
"""Matches characters that must be escaped: characters that change the direction of writing, and lone surrogates. Lone
surrogates come from file names that are not UTF-8, and they cannot be encoded."""
_IS_LEDGER = "a ledger, not a report"


def render_json(reports: Report | Sequence[Report] | Ledger) -> str:
    """Return a report (`graphsafe/report/1`), a sequence of reports (`graphsafe/reports/1`) or a ledger as JSON."""
    whole: Any = reports
    if isinstance(reports, Report):
        whole = _lazily(reports)
    elif isinstance(reports, Sequence):
        whole = {"schema": REPORTS_SCHEMA, "reports": [_lazily(report) for report in reports]}
    text = io.StringIO()
    json.dump(whole, text, indent=2, ensure_ascii=False, allow_nan=False, default=_plain)
    text.write("\n")
    return escaped(text.getvalue())


def escaped(text: str) -> str:
    """Return JSON in which lone surrogates and characters that change the direction of writing are escaped."""
    return _TO_ESCAPE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def as_json(report: Report) -> dict[str, Any]:
    """Return the report as JSON values. Every key is present, findings are in order, and NaN and infinity are null."""
    written: dict[str, Any] = _plain(replace(report, findings=tuple(in_order(report.findings))))
    return written


def _lazily(report: Report) -> dict[str, Any]:
    """Return the same as `as_json`, but convert each finding only when it is written, because there may be many
    findings."""
    return {**as_json(replace(report, findings=())), "findings": in_order(report.findings)}


def read_reports(path: Path) -> tuple[Report, ...]:
    """Return the reports in a file, in order.

    Raises ReportError as `read_saved` does, and also if the file is a ledger.
    """
    found = read_saved(path)
    if not isinstance(found, (Report, tuple)):
        raise ReportError(f"{path}: {_IS_LEDGER}")
    return (found,) if isinstance(found, Report) else found


def read_saved(path: Path) -> Report | tuple[Report, ...] | Ledger:
    """Return the report in a file, the reports of `capture --all`, or the ledger of `graphsafe run`.

    Raises ReportError with one line that names the file and its first invalid value.
    """
    try:
        return parse_saved(read_regular(path, MAX_SAVED).decode("utf-8"))
    except OSError as error:
        raise ReportError(f"{path}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ReportError(f"{path}: not UTF-8 text") from error
    except ReportError as error:
        raise ReportError(f"{path}: {error}") from error


def parse_reports(text: str) -> Report | tuple[Report, ...]:
    """Read one or several reports from a string. Raises ReportError, which names no file."""
    found = parse_saved(text)
    if not isinstance(found, (Report, tuple)):
        raise ReportError(_IS_LEDGER)
    return found


def parse_saved(text: str) -> Report | tuple[Report, ...] | Ledger:
    """Read reports or a ledger from a string, as `read_saved` does. Raises ReportError, which names no file."""
    try:
        saved = json.loads(text)
    except ValueError as error:
        raise ReportError(f"not JSON: {error}") from error
    except RecursionError as error:
        raise ReportError("not a report: nested too deeply") from error
    schema = saved.get("schema") if isinstance(saved, dict) else None
    if schema == REPORT_SCHEMA:
        check(saved, "report", "")
        return read(Report, saved)
    if schema == REPORTS_SCHEMA:
        if not isinstance(saved.get("reports"), list):
            raise ReportError("reports: expected a list")
        for at, report in enumerate(saved["reports"]):
            check(report, "report", f"reports[{at}]")
        return tuple(read(Report, report) for report in saved["reports"])
    from graphsafe.report.ledger.model import LEDGER_SCHEMA, Ledger

    if schema == LEDGER_SCHEMA:
        check(saved, "ledger", "")
        return read(Ledger, saved)
    if isinstance(schema, str) and schema.startswith("graphsafe/report"):
        raise ReportError(
            f"schema {schema[:40]!a} is not one that this version reads ({REPORT_SCHEMA}, {REPORTS_SCHEMA})"
        )
    raise ReportError("not a graphsafe report")


def _plain(value: Any) -> Any:
    return plain(value, _field)


def _field(name: str, value: Any) -> Any:
    if name == "probes":
        from graphsafe.report.probes import PROBE_KEYS  # only reports of captures have probes

        # Every key is present. Unknown values are null, and a probe that reported nothing has the status `skipped`.
        unknown = {probe: {**dict.fromkeys(keys), "status": "skipped"} for probe, keys in PROBE_KEYS.items()}
        return {probe: _plain({**keys, **(value.get(probe) or {})}) for probe, keys in unknown.items()}
    if name in ("data", "settings"):
        return _plain({key: value[key] for key in sorted(value)})
    return _plain(value)
