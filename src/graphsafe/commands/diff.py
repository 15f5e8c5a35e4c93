"""`graphsafe diff` on the command line."""

from __future__ import annotations

from pathlib import Path

import click

from graphsafe.commands.options import FINDINGS, OK, PATH
from graphsafe.console import check_writable, put_text, say


@click.command()
@click.argument("before", type=PATH)
@click.argument("after", type=PATH)
@click.option(
    "--format",
    "form",
    type=click.Choice(["terminal", "html"]),
    help="Default: terminal, or the format of FILE's suffix.",
)
@click.option("-o", "--output", type=PATH, metavar="FILE", help="Write to FILE instead of stdout.")
def diff(before: Path, after: Path, form: str | None, output: Path | None) -> int:
    """Describe what has changed from one saved JSON report to another.

    Verdicts, buckets, probes, times, memory, findings and the environment are compared. An HTML page also shows the
    timelines of both steps. The exit code is 1 if something got worse: a verdict, a new error or warning, a new
    target or bucket without a proof, or a proven one that is gone.

    \b
    graphsafe diff main.json graphsafe-report.json
    graphsafe diff main.json graphsafe-report.json -o change.html
    """
    from graphsafe.report.changes import change_lines, changes
    from graphsafe.report.json_form import read_reports

    check_writable(output)
    olds, news = read_reports(before), read_reports(after)
    sections = changes(olds, news)
    if form == "html" or (form is None and output is not None and output.suffix.lower() == ".html"):
        from graphsafe.report.html.changes import render_changes

        put_text(render_changes(olds, news, (str(before), str(after))), output)
    elif output is not None:
        put_text("\n".join(change_lines(sections)) + "\n", output)
    else:
        say("\n".join(change_lines(sections)))
    return FINDINGS if any(change.worse for section in sections for change in section.changes) else OK
