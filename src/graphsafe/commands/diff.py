"""`graphsafe diff` on the command line."""

from __future__ import annotations

from pathlib import Path

import click

from graphsafe.commands.options import FINDINGS, OK, PATH
from graphsafe.console import put_changes
from graphsafe.errors import RequestError


@click.command()
@click.argument("before", type=PATH)
@click.argument("after", type=PATH)
def diff(before: Path, after: Path) -> int:
    """Say in words what changed from one saved JSON report to another.

    Verdicts, buckets, probes, times, memory, findings, and the environment. Exit code 1 if something got worse: a
    verdict, or a new error or warning.

    \b
    graphsafe diff main.json graphsafe-report.json
    """
    from graphsafe.report.changes import changes
    from graphsafe.report.json_form import ReportError, read_reports
    from graphsafe.report.model import Report

    try:
        old, new = read_reports(before), read_reports(after)
    except ReportError as error:
        raise RequestError(str(error)) from None
    pairs = [[one] if isinstance(one, Report) else one for one in (old, new)]
    sections = changes(*pairs)
    put_changes(sections)
    return FINDINGS if any(change.worse for section in sections for change in section.changes) else OK
