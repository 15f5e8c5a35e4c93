"""Writes a report that says why a request of `graphsafe capture` was refused. It replaces an older report."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from graphsafe.commands.options import Output, own_output, put_outputs
from graphsafe.errors import RequestError

REPORT_FILE = "graphsafe-report.json"


class ReportsRefusals(click.Command):
    """A command that writes a report about the refusal even if its command line cannot be parsed."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        words = list(args)
        try:
            return super().make_context(info_name, args, parent, **extra)
        except (click.UsageError, RequestError) as error:
            lenient = {"resilient_parsing": True, "ignore_unknown_options": True, "allow_extra_args": True}
            known = super().make_context(info_name, words, parent, **{**extra, **lenient})
            why = error.format_message() if isinstance(error, click.UsageError) else str(error)
            _leave_report(known.params, known.args, why)
            raise


def _leave_report(params: Mapping[str, Any], others: Sequence[str], why: str) -> None:
    """Write the report to the files that the parsed arguments name. If an option is unknown, its value may be mistaken
    for the target."""
    named = [word for word in (params["target"], *others) if word and not word.startswith("-")]
    target = max(named, key=lambda word: ":" in word, default=None)
    with contextlib.suppress(RequestError):
        files = report_files(params["outputs"] or ())
        with refusals_reported(target, bool(params["all_targets"]), params["form"], files):
            raise RequestError(why)


def report_files(outputs: Sequence[Output]) -> list[Output]:
    """Return the files to which the report is written. Raises RequestError."""
    files = [Output(absolute(output.file), output.form) for output in outputs if output.file is not None]
    return files or [own_output(absolute(Path(REPORT_FILE)))]


def absolute(path: Path) -> Path:
    """Return an absolute path, which stays valid if the working directory is deleted. Raises RequestError."""
    try:
        return path.absolute()
    except OSError:
        raise RequestError("the working directory no longer exists") from None


@contextmanager
def refusals_reported(
    target: str | None, all_targets: bool, form: str | None, files: Sequence[Output]
) -> Iterator[None]:
    """Write a report if a request is refused in this block."""
    try:
        yield
    except RequestError as error:
        from graphsafe.capture.api import refused
        from graphsafe.capture.request import CaptureRequest
        from graphsafe.config import Config

        named = "--all" if all_targets else target or "no target"
        report = refused(CaptureRequest(named, Config(root=Path.cwd())), str(error))
        with contextlib.suppress(RequestError):  # the user must see the refusal, not an error of writing
            put_outputs([report] if all_targets else report, form, files, "json", None)
        raise
