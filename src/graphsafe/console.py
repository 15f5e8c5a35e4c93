"""What goes to the terminal and into files."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from graphsafe.errors import RequestError

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from graphsafe.report.model import Report
    from graphsafe.report.rule_text import RuleTexts


def complain(line: str) -> None:
    click.echo(f"graphsafe: {line}", err=True)


def check_writable(output: Path | None) -> None:
    """Before the work, since a capture takes minutes. Raises RequestError."""
    if output is not None and (output.is_dir() or not os.access(output.absolute().parent, os.W_OK)):
        raise RequestError(f"-o {output}: cannot be written")


def put(reports: Report | Sequence[Report], form: str, output: Path | None, rules: Callable[[], RuleTexts]) -> None:
    """In one form, to a file or to stdout. Raises RequestError where the file cannot be written."""
    from graphsafe.files import write_atomically
    from graphsafe.report.forms import render

    text = render(reports, form, colour=output is None and _colour(), width=_width(), rules=rules)
    if output is None:
        click.echo(text, nl=False, color=True)
        return
    try:
        write_atomically(output, text)
    except OSError as error:
        raise RequestError(f"-o {output}: {error.strerror}") from None


def put_page(markdown: str) -> None:
    """Set on a terminal; plain Markdown when piped."""
    if _colour():
        from rich.console import Console
        from rich.markdown import Markdown

        Console(width=min(_width(), 100)).print(Markdown(markdown))
    else:
        click.echo(markdown, nl=False)


class StatusLine:
    """One line on stderr that says what is going on, and is gone in the end."""

    def __init__(self) -> None:
        self._shown = False

    def show(self, line: str) -> None:
        click.echo(f"\r\033[K{line[: _width() - 1]}", nl=False, err=True)
        self._shown = True

    def clear(self) -> None:
        if self._shown:
            click.echo("\r\033[K", nl=False, err=True)


class ProgressBar:
    """How far a long run has come, on stderr; a short one shows nothing."""

    PATIENCE = 2.0
    "Seconds before it appears."

    def __init__(self, what: str) -> None:
        self._what = what
        self._start = time.monotonic()
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def show(self, done: int, total: int) -> None:
        if self._bar is None:
            if time.monotonic() - self._start < self.PATIENCE:
                return
            from rich.console import Console
            from rich.progress import Progress

            self._bar = Progress(console=Console(stderr=True), transient=True)
            self._task = self._bar.add_task(self._what, total=total)
            self._bar.start()
        if self._task is not None:
            self._bar.update(self._task, completed=done, total=total)

    def clear(self) -> None:
        if self._bar is not None:
            self._bar.stop()


def _colour() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def _width() -> int:
    return shutil.get_terminal_size((80, 24)).columns
