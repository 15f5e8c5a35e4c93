"""What the commands share: exit codes, options, and where the configuration comes from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from graphsafe.errors import RequestError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from graphsafe.config import Config
    from graphsafe.report.model import Report
    from graphsafe.report.rule_text import RuleTexts
    from graphsafe.report.source import Lines

OK, FINDINGS, BAD_REQUEST, INTERNAL_ERROR, INTERRUPTED = 0, 1, 2, 3, 130


class _Form(click.ParamType[str]):
    """The name of a report form. The registry of forms is imported only when the option is used."""

    name = "form"

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        from graphsafe.report.forms import FORMS

        return f"[{'|'.join(FORMS)}]"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from graphsafe.report.forms import FORMS

        if value not in FORMS:
            self.fail(f"{value!r} is not one of {', '.join(FORMS)}.", param, ctx)
        return value

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        from graphsafe.report.forms import FORMS

        return [CompletionItem(form) for form in FORMS if form.startswith(incomplete)]


@dataclass(frozen=True, slots=True)
class Output:
    """Where a report goes: a file, or stdout where `file` is None; in a form of its own, if it names one."""

    file: Path | None
    form: str | None

    def form_or(self, asked: str | None, otherwise: str) -> str:
        """Its own form, else the one of --format, else the one that the file's suffix names."""
        from graphsafe.report.forms import FORM_OF_SUFFIX

        known = FORM_OF_SUFFIX.get(self.file.suffix.lower()) if self.file is not None else None
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
        if form in FORMS and file:
            return Output(Path(file), form)
        return Output(Path(value), None)


PATH = click.Path(path_type=Path)
LEVEL = click.Choice(["error", "warning", "note"])
form_option = click.option(
    "--format", "form", type=_Form(), help="The form on stdout (default: terminal), and of -o FILE."
)
outputs_option = click.option(
    "-o",
    "--output",
    "outputs",
    multiple=True,
    type=_Output(),
    help="Write to FILE instead of stdout, in FORM or what its suffix names; -o FORM is stdout. Repeatable.",
)


def check_outputs(outputs: Sequence[Output]) -> None:
    """Raises RequestError for files that cannot be written, before the work."""
    from graphsafe.console import check_writable

    for output in outputs:
        check_writable(output.file)


def put_outputs(
    reports: Report | Sequence[Report],
    form: str | None,
    outputs: Sequence[Output],
    otherwise: str,
    rules: Callable[[], RuleTexts],
    source: Lines | None = None,
) -> None:
    """To every output, or to stdout where there is none. A file that cannot be written does not keep others from it."""
    from graphsafe.console import put

    failures = []
    for output in outputs or (Output(None, None),):
        try:
            put(reports, output.form_or(form, otherwise), output.file, rules, source)
        except RequestError as error:
            failures.append(error)
    if failures:
        raise failures[0]


def rule_texts(config: Config) -> Callable[[], RuleTexts]:
    """A loader of the rules' texts, for the forms that show them."""

    def load() -> RuleTexts:
        from graphsafe.rulebook import load_rulebook

        return load_rulebook(config.rule_packs).rules

    return load


def config_here() -> Config:
    from graphsafe.config import config_over

    return config_over(Path.cwd())
