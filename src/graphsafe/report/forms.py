"""The registry of forms: every one is a pure function from reports to text, imported when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from graphsafe.report.model import Report
from graphsafe.report.rule_text import RuleTexts
from graphsafe.report.source import Lines, file_lines

FORMS: tuple[str, ...] = ("terminal", "concise", "json", "sarif", "github", "gitlab", "junit", "html")

FORM_OF_SUFFIX: Mapping[str, str] = {".json": "json", ".sarif": "sarif", ".html": "html", ".xml": "junit"}
"What a file's name says of its form."


def render(
    reports: Report | Sequence[Report],
    form: str,
    *,
    colour: bool = False,
    width: int = 80,
    source: Lines = file_lines,
    rules: Callable[[], RuleTexts] = dict,
) -> str:
    """The text of one report, or of many (which JSON writes as `graphsafe/reports/1`), in one of `FORMS`.

    `width`, in columns, and `colour` are for the terminal. `source` gives the code that the terminal's and the HTML
    form show; `rules` gives the help that SARIF carries, and is called for it only. Half characters (of file names that
    are not UTF-8) are replaced, but in JSON, which can say them. Raises ValueError for a form that is none.
    """
    many = (reports,) if isinstance(reports, Report) else tuple(reports)
    if form == "json":
        from graphsafe.report.json_form import render_json

        return render_json(reports)
    return _text(many, form, colour, width, source, rules).encode("utf-8", "replace").decode("utf-8")


def _text(
    reports: Sequence[Report], form: str, colour: bool, width: int, source: Lines, rules: Callable[[], RuleTexts]
) -> str:
    if form == "terminal":
        from graphsafe.report.terminal import render_terminal

        return render_terminal(reports, source, colour=colour, width=width)
    if form == "concise":
        from graphsafe.report.concise import render_concise

        return render_concise(reports)
    if form == "sarif":
        from graphsafe.report.sarif import render_sarif

        return render_sarif(reports, rules())
    if form == "github":
        from graphsafe.report.github import render_github

        return render_github(reports)
    if form == "gitlab":
        from graphsafe.report.gitlab import render_gitlab

        return render_gitlab(reports)
    if form == "junit":
        from graphsafe.report.junit import render_junit

        return render_junit(reports)
    if form == "html":
        from graphsafe.report.html_form import render_html

        return render_html(reports, source)
    raise ValueError(f"no such form: {form}")
