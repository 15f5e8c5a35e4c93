"""Options that several commands share, functions that apply them, and functions that write outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from graphsafe.errors import RequestError, nearest

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from graphsafe.config import Config
    from graphsafe.report.ci.sarif import RuleTexts
    from graphsafe.report.ledger.model import Ledger
    from graphsafe.report.model import Report
    from graphsafe.report.source import Lines

OK, FINDINGS, BAD_REQUEST, INTERNAL_ERROR, INTERRUPTED, CLOSED_PIPE = 0, 1, 2, 3, 130, 141


class _Form(click.ParamType[str]):
    """The name of a report's format. The registry of formats is imported only when the option is used."""

    name = "form"

    def __init__(self, *, has_timeline: bool) -> None:
        self._has_timeline = has_timeline

    def _offered(self) -> list[str]:
        from graphsafe.report.forms import FORMS

        return [form for form in FORMS if form != "trace" or self._has_timeline]

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        return f"[{'|'.join(self._offered())}]"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from graphsafe.report.forms import FORMS

        if value not in FORMS:
            self.fail(f"{value!r} is not one of {', '.join(FORMS)}.", param, ctx)
        return value

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        return [CompletionItem(form) for form in self._offered() if form.startswith(incomplete)]


@dataclass(frozen=True, slots=True)
class Output:
    """The destination of a report: a file, or stdout if `file` is None. It has its own format if one was given."""

    file: Path | None
    form: str | None

    def form_or(self, asked: str | None, otherwise: str) -> str:
        """Return the output's own format, or else the format of --format, or else the format that the file's name
        implies."""
        from graphsafe.report.forms import form_of

        known = form_of(self.file.name) if self.file is not None else None
        return self.form or asked or known or otherwise


class _Output(click.ParamType[Output]):
    name = "output"

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        return "[FORM=]FILE"

    def convert(self, value: str | Output, param: click.Parameter | None, ctx: click.Context | None) -> Output:
        from graphsafe.report.forms import FORMS

        if isinstance(value, Output):
            return value
        form, equals, file = value.partition("=")
        if form in FORMS and not equals:
            return Output(None, form)
        if file and form.isidentifier() and form not in FORMS and (hint := nearest(form, FORMS)):
            self.fail(f"{form!r} is not a format{hint}; ./{value} names a file.", param, ctx)
        named = form in FORMS and bool(file)
        path = file if named else value
        return Output(None if path == "-" else Path(path), form if named else None)


class _Path(click.Path):
    """A path that is not empty. An empty path comes from an unset variable of a script, and Path("") would mean `.`."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("the path is empty", param, ctx)
        return super().convert(value, param, ctx)


PATH = _Path(path_type=Path, readable=False)  # the code that opens a file reports the error
LEVEL = click.Choice(["error", "warning", "note"])
_Command = TypeVar("_Command", bound=Callable[..., object])


def form_option(
    *, has_timeline: bool, help: str = "The format on stdout (default: terminal), and of -o FILE."
) -> Callable[[_Command], _Command]:
    """Return the option for the format. Only a command with a timeline offers `trace`."""
    return click.option("--format", "form", type=_Form(has_timeline=has_timeline), help=help)


def outputs_option(instead_of: str = "stdout") -> Callable[[_Command], _Command]:
    """Return the option for the destinations."""
    says = f"Write to FILE instead of {instead_of}, in the format FORM or the one of its suffix. "
    says += "-o FORM and -o - write to stdout. Repeatable."
    return click.option("-o", "--output", "outputs", multiple=True, type=_Output(), help=says)


_QUIET = "graphsafe.quiet"
quiet_option = click.option(
    "-q",
    "--quiet",
    is_flag=True,
    expose_value=False,
    callback=lambda context, parameter, is_quiet: context.meta.update({_QUIET: is_quiet}),
    help="Print one line per finding, no progress, and no messages except errors.",
)


def is_quiet() -> bool:
    """Return whether -q was given to the running command."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(_QUIET))


def say_waiting() -> None:
    """Print on stderr that a command with --watch waits, and how to end it."""
    from graphsafe.console import complain

    if not is_quiet():
        complain("waiting for changes; Ctrl-C ends")


def usual_form() -> str:
    """Return the format for stdout if none is given."""
    return "concise" if is_quiet() else "terminal"


def refuse(refusals: Mapping[str, bool]) -> None:
    """Raise RequestError with the first message whose condition is true."""
    for message, holds in refusals.items():
        if holds:
            raise RequestError(message)


def check_outputs(outputs: Sequence[Output]) -> None:
    """Raise RequestError, before any work, if a file cannot be written.

    A repository may contain a link with the name that a CI recipe writes to. So a relative name must not be a link, and
    no link in the path may lead out of the working directory.
    """
    from graphsafe.console import check_writable
    from graphsafe.files import leads_out

    for output in outputs:
        check_writable(output.file)
        file = output.file
        if file is None or file.is_absolute() or ".." in file.parts:
            continue
        if file.is_symlink() or leads_out(file, Path()):
            raise RequestError(f"-o {file}: a link; remove it, or name another file")


def own_output(file: Path) -> Output:
    """Return the output to a file that the user did not name.

    Raises RequestError if the file is a link to another folder, because a repository may contain such a link.
    """
    from graphsafe.files import leads_out

    if leads_out(file, file.parent):
        raise RequestError(f"{file.name}: points outside the working directory; remove the link, or give -o FILE")
    return Output(file, "json")


def put_outputs(
    reports: Report | Sequence[Report] | Ledger,
    form: str | None,
    outputs: Sequence[Output],
    otherwise: str,
    config: Config | None,
    source: Lines | None = None,
    on_screen: Report | None = None,
) -> None:
    """Write to every output, or to stdout if there is none. If one file cannot be written, the other files are still
    written.

    Some formats show the texts of rules. These are the rules of the configuration. `on_screen` is the report for the
    terminal format on stdout, without what the command prints on stderr.
    """
    from graphsafe.console import put

    def rules() -> RuleTexts:
        from graphsafe.rulebook.book import rulebook_of

        return {} if config is None else rulebook_of(config).rules

    failures = []
    for output in outputs or (Output(None, None),):
        asked = output.form_or(form, otherwise)
        try:
            if asked == "trace" and not _has_timeline(reports):
                refuse_trace([output], form)
            is_printed = asked == "terminal" and output.file is None
            put((on_screen or reports) if is_printed else reports, asked, output.file, rules, source)
        except RequestError as error:
            failures.append(error)
    if failures:
        raise failures[0]


def refuse_trace(outputs: Sequence[Output], form: str | None) -> None:
    """Raise RequestError if the user asks for a trace of something other than a capture. The message names the
    option."""
    for output in outputs:
        if output.form_or(form, "") == "trace":
            option = "--format trace" if output == Output(None, None) else f"-o {output.file or 'trace'}"
            raise RequestError(f"{option}: only a capture has a timeline")


def _has_timeline(reports: Report | Sequence[Report] | Ledger) -> bool:
    from graphsafe.report.model import Report

    several = (reports,) if isinstance(reports, Report) else reports
    return isinstance(several, Sequence) and all(report.command == "capture" for report in several)


def config_here() -> Config:
    from graphsafe.config import config_over

    return config_over(Path.cwd())
