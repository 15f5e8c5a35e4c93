"""What the commands share: exit codes, options, and where the configuration comes from."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from graphsafe.config import Config
    from graphsafe.report.rule_text import RuleTexts

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


PATH = click.Path(path_type=Path)
LEVEL = click.Choice(["error", "warning", "note"])
form_option = click.option(
    "--format", "form", type=_Form(), help="The form on stdout (default: terminal), and of -o FILE."
)


def form_of(output: Path | None, asked: str | None, otherwise: str) -> str:
    """The form that was asked for, else the one that the file's suffix names."""
    from graphsafe.report.forms import FORM_OF_SUFFIX

    return asked or (FORM_OF_SUFFIX.get(output.suffix.lower()) if output is not None else None) or otherwise


def rule_texts(config: Config) -> Callable[[], RuleTexts]:
    """A loader of the rules' texts, for the forms that show them."""

    def load() -> RuleTexts:
        from graphsafe.rulebook import load_rulebook

        return load_rulebook(config.rule_packs).rules

    return load


def config_here() -> Config:
    return config_for([Path.cwd()])


def config_for(paths: Sequence[Path]) -> Config:
    from graphsafe.config import load_config

    absolute = [path.absolute() for path in paths]
    try:
        return load_config(Path(os.path.commonpath(absolute)))
    except ValueError:  # paths on several drives
        return load_config(absolute[0])
