"""The registry of output formats (forms).

Each form is a pure function from reports to a string. Its module is imported when the form is first used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from graphsafe.report.model import Report
from graphsafe.report.source import Lines, file_lines
from graphsafe.report.text import without_commands

if TYPE_CHECKING:
    from graphsafe.report.ci.sarif import RuleTexts
    from graphsafe.report.ledger.model import Ledger

FORMS: Mapping[str, str] = {
    "terminal": "terminal",
    "concise": "concise",
    "json": "json_form",
    "sarif": "ci.sarif",
    "github": "ci.github",
    "gitlab": "ci.gitlab",
    "junit": "ci.junit",
    "html": "html.page",
    "trace": "timeline.trace_form",
}
"Form -> the module of this package that defines the function `render_FORM`."

FORM_OF_SUFFIX: Mapping[str, str] = {".json": "json", ".sarif": "sarif", ".html": "html", ".xml": "junit"}
"Suffix of a file's name -> the form of the file."
_TRACE = "trace.json"
"""A file with this name, or with a name that ends in `.trace.json`, is a trace."""


def form_of(file: str) -> str | None:
    """Return the form that a file's name implies, or None."""
    name = file.replace("\\", "/").rpartition("/")[2].lower()
    if name == _TRACE or name.endswith(f".{_TRACE}"):
        return "trace"
    return next((form for suffix, form in FORM_OF_SUFFIX.items() if name.endswith(suffix)), None)


def render(
    reports: Report | Sequence[Report] | Ledger,
    form: str,
    *,
    colour: bool = False,
    width: int = 80,
    source: Lines = file_lines,
    rules: Callable[[], RuleTexts] = dict,
) -> str:
    """Render one report, several reports (`graphsafe/reports/1` in JSON) or a ledger in one of `FORMS`.

    A form that cannot show the processes of a ledger shows only the ledger's findings. `width` (in columns) and
    `colour` are for the form `terminal`. `source` returns the code that `terminal` and `html` show. `rules` returns the
    help texts and is called only for `sarif`. Lone surrogates, which stand for file names that are not UTF-8, are
    replaced, except in JSON, which can escape them. Raises ValueError for an unknown form.
    """
    if form not in FORMS:
        raise ValueError(f"no such form: {form}")
    rendered: Callable[..., str] = getattr(import_module(f"graphsafe.report.{FORMS[form]}"), f"render_{form}")
    if form == "json":
        return rendered(reports)
    ledger: Ledger | None = None
    if not isinstance(reports, (Report, Sequence)):
        ledger, reports = reports, reports.as_report()
    many = (reports,) if isinstance(reports, Report) else tuple(reports)
    if form == "terminal":
        text = rendered(many, source, colour=colour, width=width)
        if ledger is not None:
            from graphsafe.report.ledger.terminal import processes_text

            processes = processes_text(ledger, colour=colour, width=width)
            text = f"{processes}\n{text}" if processes else text
    elif form == "html":
        text = rendered(many, source)
        if ledger is not None:
            from graphsafe.report.ledger.html_form import with_processes

            text = with_processes(text, ledger)
    else:
        text = rendered(many, rules()) if form == "sarif" else rendered(many)
    text = without_commands(text) if form in ("terminal", "concise") else text
    return text.encode("utf-8", "replace").decode("utf-8")
