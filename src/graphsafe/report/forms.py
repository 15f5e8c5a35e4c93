"""The registry of forms: every one is a function from reports to text."""

from __future__ import annotations

from collections.abc import Sequence

from graphsafe.report.fingerprint import Source
from graphsafe.report.model import Report
from graphsafe.report.source import file_lines

FORMS: tuple[str, ...] = ("terminal", "concise", "json")


def render(
    reports: Report | Sequence[Report],
    form: str,
    *,
    colour: bool = False,
    width: int = 80,
    source: Source = file_lines,
) -> str:
    """The text of one report, or of many (which JSON writes as `graphsafe/reports/1`), in one of `FORMS`.

    `width` is in columns and, as `colour`, for the terminal only; `source` gives the code that a form shows.
    """
    many = (reports,) if isinstance(reports, Report) else tuple(reports)
    if form == "json":
        from graphsafe.report.json_form import render_json

        return render_json(reports)
    if form == "terminal":
        from graphsafe.report.terminal import render_terminal

        text = render_terminal(many, source, colour=colour, width=width)
    elif form == "concise":
        from graphsafe.report.concise import render_concise

        text = render_concise(many)
    else:
        raise ValueError(f"no such form: {form}")
    return text
