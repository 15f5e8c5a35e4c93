"""The registry of forms. Each form is a pure function from reports to text, imported when it is first used."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from graphsafe.report.model import Report
from graphsafe.report.rule_text import RuleTexts
from graphsafe.report.source import Lines, file_lines
from graphsafe.report.text import without_commands

if TYPE_CHECKING:
    from graphsafe.report.ledger.model import Ledger

FORMS: tuple[str, ...] = ("terminal", "concise", "json", "sarif", "github", "gitlab", "junit", "html", "trace")

FORM_OF_SUFFIX: Mapping[str, str] = {".json": "json", ".sarif": "sarif", ".html": "html", ".xml": "junit"}
"Suffix of a file's name -> its form."
_TRACE = "trace.json"
"""A file of this name, or whose name ends in `.trace.json`, is a trace."""


def form_of(file: str) -> str | None:
    """Return the form that a file's name says, or None."""
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
    """Return the text of one report, of many (which JSON writes as `graphsafe/reports/1`), or of a ledger, in one of
    `FORMS`.

    A form without a place for a ledger's processes shows its findings. `width`, in columns, and `colour` are for the
    terminal. `source` gives the code that the terminal's and the HTML form show; `rules` gives the help in SARIF, and
    is called only for SARIF. Lone surrogates (of file names that are not UTF-8) are replaced, except in JSON, which can
    write them. Raises ValueError for an unknown form.
    """
    if not isinstance(reports, (Report, Sequence)):
        return _ledger(reports, form, colour, width, source, rules)
    many = (reports,) if isinstance(reports, Report) else tuple(reports)
    if form == "json":
        from graphsafe.report.json_form import render_json

        return render_json(reports)
    return _whole(_text(many, form, colour, width, source, rules))


def _whole(text: str) -> str:
    """Return a text with its lone surrogates replaced."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _ledger(ledger: Ledger, form: str, colour: bool, width: int, source: Lines, rules: Callable[[], RuleTexts]) -> str:
    if form == "json":
        from graphsafe.report.json_form import render_ledger_json

        return render_ledger_json(ledger)
    text = render(ledger.as_report(), form, colour=colour, width=width, source=source, rules=rules)
    if form == "terminal":
        from graphsafe.report.ledger.terminal import processes_text

        processes = without_commands(processes_text(ledger, colour=colour, width=width))
        return f"{_whole(processes)}\n{text}" if processes else text
    if form == "html":
        from graphsafe.report.ledger.html_form import with_processes

        return _whole(with_processes(text, ledger))
    return text


def _text(
    reports: Sequence[Report], form: str, colour: bool, width: int, source: Lines, rules: Callable[[], RuleTexts]
) -> str:
    if form == "terminal":
        from graphsafe.report.terminal import render_terminal

        return without_commands(render_terminal(reports, source, colour=colour, width=width))
    if form == "concise":
        from graphsafe.report.concise import render_concise

        return without_commands(render_concise(reports))
    if form == "sarif":
        from graphsafe.report.ci.sarif import render_sarif

        return render_sarif(reports, rules())
    if form == "github":
        from graphsafe.report.ci.github import render_github

        return render_github(reports)
    if form == "gitlab":
        from graphsafe.report.ci.gitlab import render_gitlab

        return render_gitlab(reports)
    if form == "junit":
        from graphsafe.report.ci.junit import render_junit

        return render_junit(reports)
    if form == "html":
        from graphsafe.report.html.page import render_html

        return render_html(reports, source)
    if form == "trace":
        from graphsafe.report.timeline.trace_form import render_trace

        return render_trace(reports)
    raise ValueError(f"no such form: {form}")
