"""The command line: parse, call, print. Everything heavy is imported by the command that needs it."""

from __future__ import annotations

import contextlib
import errno
import gc
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from graphsafe import __version__
from graphsafe.cli_capture import capture
from graphsafe.cli_options import (
    BAD_REQUEST,
    FINDINGS,
    INTERNAL_ERROR,
    INTERRUPTED,
    LEVEL,
    OK,
    PATH,
    config_for,
    config_here,
    form_of,
    form_option,
    rule_texts,
)
from graphsafe.console import (
    ProgressBar,
    check_writable,
    complain,
    put,
    put_hotness,
    put_page,
)
from graphsafe.errors import RequestError

if TYPE_CHECKING:
    from graphsafe.report.model import Level, Report

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"What a write to a full or failing disk ends in."


def run() -> int:
    """Run `main` as the whole work of this process.

    No garbage is collected: a large scan leaves reference cycles, and collecting them would take 3 % of its time.
    """
    gc.disable()
    code = main()
    # Python's own last collection leaves alone what is frozen.
    gc.freeze()
    return code


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    0: nothing stands in the way. 1: something does. 2: the request is wrong. 3: graphsafe itself failed.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by whoever started us
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
        elif hasattr(getattr(sys, name), "reconfigure"):
            getattr(sys, name).reconfigure(errors="backslashreplace")
    try:
        code = commands.main(args=argv, prog_name="graphsafe", standalone_mode=False)
        sys.stdout.flush()
        return int(code or OK)
    except click.ClickException as error:
        with contextlib.suppress(OSError):
            error.show()
        return BAD_REQUEST
    except RequestError as error:
        complain(str(error))
        return BAD_REQUEST
    except (KeyboardInterrupt, click.Abort):
        complain("interrupted")
        return INTERRUPTED
    except BrokenPipeError:  # the reader (`| head`) has gone
        _discard_output()
        return FINDINGS
    except Exception as error:
        if isinstance(error, OSError) and error.filename is None and error.errno in _NO_ROOM:
            _discard_output()
            complain(f"the output cannot be written: {error.strerror}")
            return BAD_REQUEST
        from graphsafe.failure import what_to_report

        with contextlib.suppress(OSError):
            click.echo(what_to_report(error, list(sys.argv[1:] if argv is None else argv)), err=True)
        return INTERNAL_ERROR


def _discard_output() -> None:
    """Drop what stdout still buffers: Python would try to write it again at exit, and print an error."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _codes(ctx: click.Context, param: click.Parameter, values: Sequence[str]) -> tuple[str, ...]:
    return tuple(code.strip() for value in values for code in value.split(",") if code.strip())


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, message="graphsafe %(version)s")
def commands() -> None:
    """Can one step of your PyTorch code be captured and replayed as a CUDA graph?

    \b
    graphsafe scan src/                       name the lines that stand in the way; needs no torch and no GPU
    graphsafe capture model.py:build          run the step and prove it, on a GPU or the simulated device
    graphsafe explain GS101                   what a rule means, why it breaks a capture, what to write instead

    \b
    Exit codes: 0 nothing stands in the way, 1 something does, 2 the request is wrong, 3 graphsafe itself failed.
    """


@commands.command()
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=PATH)
@form_option
@click.option(
    "-o", "--output", type=PATH, metavar="FILE", help="Write to FILE instead of stdout; its suffix may name the form."
)
@click.option("--select", multiple=True, callback=_codes, metavar="CODES", help="Only these rules: GS101,GS2.")
@click.option(
    "--ignore", multiple=True, callback=_codes, metavar="CODES", help="Not these rules, besides configured ones."
)
@click.option("--fail-level", type=LEVEL, help="Exit with 1 from this level on (default: error).")
@click.option(
    "--confidence",
    type=click.Choice(["likely", "possible"]),
    default="likely",
    help="Also report what is only possible (default: likely).",
)
@click.option("--no-cache", is_flag=True, help="Neither use nor keep what earlier scans found.")
@click.option(
    "--cache-dir", type=PATH, metavar="DIR", help="Keep it in DIR (default: .graphsafe_cache in the project)."
)
@click.option("-j", "--jobs", type=click.IntRange(min=1), metavar="N", help="Processes (default: one a core).")
@click.option(
    "--explain-path",
    metavar="FUNC",
    help="Instead of a report: why FUNC is hot or is not. FILE.py:NAME, module:NAME or NAME, also its end only.",
)
def scan(
    paths: tuple[Path, ...],
    form: str | None,
    output: Path | None,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    fail_level: Level | None,
    confidence: str,
    no_cache: bool,
    cache_dir: Path | None,
    jobs: int | None,
    explain_path: str | None,
) -> int:
    """Lint the hot path of files and folders: which lines stand in the way of a CUDA graph, and what to write instead.

    Nothing is imported and nothing is run. Findings are limited to code that a step reaches, for example from the
    `forward` of a module; configure more with hot-paths in pyproject.toml, or mark a function with `# graphsafe: hot`.

    \b
    graphsafe scan src/
    graphsafe scan model.py --select GS1,GS3 --format concise
    graphsafe scan src/ --format sarif -o graphsafe.sarif
    graphsafe scan src/ --explain-path Sampler.draw
    """
    from graphsafe.scan import api
    from graphsafe.scan.incremental.cache import cache_folder

    missing = [path for path in paths if not (path.is_file() or path.is_dir())]
    for path in missing:
        complain(f"{path}: no such file or folder")
    there = [path for path in paths if path not in missing]
    if not there:
        return BAD_REQUEST
    check_writable(output)
    config = config_for(there)
    bar = ProgressBar("reading hot code")
    progress = bar.show if sys.stderr.isatty() else None
    if explain_path is not None:
        if form not in (None, "terminal") or output is not None:
            raise RequestError("scan --explain-path prints text; it takes neither --format nor -o")
        try:
            explained = api.explain_path(explain_path, there, config, jobs=jobs, progress=progress)
        finally:
            bar.clear()
        put_hotness(explained)
        return BAD_REQUEST if missing else OK
    config = replace(
        config,
        select=select or config.select,
        ignore=config.ignore + ignore,
        fail_level=fail_level or config.fail_level,
    )
    try:
        report = api.scan_paths(
            there,
            config,
            confidence="possible" if confidence == "possible" else "likely",
            cache=None if no_cache else cache_dir or cache_folder(config),
            jobs=jobs,
            progress=progress,
            complain=complain,
        )
    finally:
        bar.clear()
    put(report, form_of(output, form, "terminal"), output, rule_texts(config))
    for limit in report.limits:
        if limit.kind in ("no-root", "internal-error"):
            complain(f"{limit.what}: {limit.why}")
    return BAD_REQUEST if missing else _scan_code(report, config.fail_level)


commands.add_command(capture)


@commands.command()
@click.argument("words", metavar="CODE|ERROR", nargs=-1, required=True)
def explain(words: tuple[str, ...]) -> None:
    """Explain a rule, a CUDA error code, or the text of an error.

    \b
    graphsafe explain GS101
    graphsafe explain E906
    graphsafe explain 'Offset increment outside graph capture'
    """
    from graphsafe.explain import page_for
    from graphsafe.rulebook import load_rulebook

    put_page(page_for(" ".join(words), load_rulebook(config_here().rule_packs)))


@commands.group(invoke_without_command=True)
@click.pass_context
def rules(context: click.Context) -> None:
    """List the rulebook; `rules test` runs the cases inside rule files."""
    if context.invoked_subcommand is None:
        from graphsafe.rulebook import load_rulebook

        listed = load_rulebook(config_here().rule_packs).rules.values()
        width = max(len(rule.name) for rule in listed)
        for rule in listed:
            click.echo(f"{rule.code}  {rule.level:<7}  {rule.name:<{width}}  {rule.summary}")


@rules.command("test")
@click.argument("packs", metavar="[PACK]...", nargs=-1, type=PATH)
def rules_test(packs: tuple[Path, ...]) -> int:
    """Run the cases inside rule files: PACK is a file or a folder; without one, graphsafe's own rules."""
    from graphsafe.ruletest import run_cases

    failed = 0
    ran = 0
    for outcome in run_cases(packs):
        ran += 1
        if outcome.problem:
            failed += 1
            click.echo(f"{outcome.code} {outcome.kind} case {outcome.title!r}: {outcome.problem}")
    click.echo(f"{ran - failed} of {ran} cases passed")
    return FINDINGS if failed else OK


@commands.command()
@click.argument("file", type=PATH)
@form_option
@click.option(
    "-o", "--output", type=PATH, metavar="FILE", help="Write to FILE instead of stdout; its suffix may name the form."
)
def report(file: Path, form: str | None, output: Path | None) -> None:
    """Turn a saved JSON report into another form.

    \b
    graphsafe report graphsafe-report.json
    graphsafe report graphsafe-report.json --format html -o report.html
    """
    from graphsafe.report.json_form import ReportError, read_reports

    try:
        reports = read_reports(file)
    except ReportError as error:
        raise RequestError(str(error)) from None
    check_writable(output)
    put(reports, form_of(output, form, "terminal"), output, rule_texts(config_here()))


def _scan_code(report: Report, fail_level: Level) -> int:
    from graphsafe.report.model import LEVELS

    failing = LEVELS[LEVELS.index(fail_level) :]
    return FINDINGS if any(f.level in failing and f.suppressed is None for f in report.findings) else OK
