"""`graphsafe scan` on the command line."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

import click

from graphsafe.commands.options import (
    BAD_REQUEST,
    LEVEL,
    OK,
    PATH,
    Output,
    check_outputs,
    form_option,
    is_quiet,
    outputs_option,
    put_outputs,
    quiet_option,
    refuse,
    say_waiting,
    usual_form,
)
from graphsafe.console import complain, is_live, put_statistics, say
from graphsafe.errors import RequestError
from graphsafe.files import with_real_folder

Command = TypeVar("Command", bound=Callable[..., Any])


def _codes_option(name: str, text: str) -> Callable[[Command], Command]:
    def parsed(ctx: click.Context, param: click.Parameter, values: Sequence[str]) -> tuple[str, ...]:
        return tuple(code.strip() for value in values for code in value.split(",") if code.strip())

    return click.option(name, multiple=True, callback=parsed, metavar="CODES", help=text)


def _patterns(ctx: click.Context, param: click.Parameter, values: Sequence[str]) -> tuple[str, ...]:
    from graphsafe.ignorefile import problem_of

    for value in values:
        problem = problem_of(value)
        if problem is not None:
            raise click.BadParameter(problem)
    return tuple(values)


@click.command(short_help="Find the lines that prevent a CUDA graph.")
@click.argument("paths", metavar="[PATH]...", nargs=-1, type=PATH)
@form_option(has_timeline=False)
@outputs_option()
@quiet_option
@_codes_option("--select", "Use only these rules: GS101,GS2. Replaces the configured selection.")
@_codes_option("--extend-select", "Also use these rules, even if the configuration ignores them.")
@_codes_option("--ignore", "Do not use these rules, whatever else is selected.")
@click.option(
    "--exclude",
    multiple=True,
    callback=_patterns,
    metavar="PATTERN",
    help="More files to exclude: patterns as in .gitignore, from the project root. Repeatable.",
)
@click.option(
    "--fail-level", type=LEVEL, help="Exit with 1 if a finding has this level or a higher one (default: error)."
)
@click.option(
    "--region",
    type=click.Choice(["captured", "step"]),
    help="Report only findings in code that a graph captures, or only those in host code around it (default: both).",
)
@click.option("--exit-zero", is_flag=True, help="Exit with 0 even if there are findings.")
@click.option(
    "--confidence",
    type=click.Choice(["likely", "possible"]),
    default="likely",
    help="With `possible`, also report findings that are only possible (default: likely).",
)
@click.option(
    "--baseline",
    type=PATH,
    metavar="FILE",
    help="A file of known findings, not reported again (default: graphsafe-baseline.toml beside the configuration).",
)
@click.option(
    "--write-baseline",
    is_flag=True,
    help="Instead of a report: record the findings as known. Later scans do not report them.",
)
@click.option(
    "--add-ignore",
    metavar="REASON",
    help="Instead of a report: write `# graphsafe: ignore[CODE] REASON` on the lines that fail the scan.",
)
@click.option("--fix", is_flag=True, help="Apply the safe repairs, and report the remaining findings.")
@click.option(
    "--unsafe-fixes", is_flag=True, help="With --fix or --diff-fixes: also apply repairs that can change a result."
)
@click.option(
    "--diff-fixes", is_flag=True, help="Instead of a report: print the changes that --fix would make, as a diff."
)
@click.option(
    "--diff",
    metavar="REV",
    help="Report only findings on lines that this branch has changed since the git revision REV.",
)
@click.option("--stdin-filename", type=PATH, metavar="FILE", help="With `-`: the file whose content stdin contains.")
@click.option(
    "--with",
    "captures",
    type=PATH,
    multiple=True,
    metavar="FILE",
    help="A report of `graphsafe capture`. It marks findings as confirmed, refuted or never reached. Repeatable.",
)
@click.option("--watch", is_flag=True, help="Scan again whenever a file of the project changes, until Ctrl-C.")
@click.option("--statistics", is_flag=True, help="Instead of a report: print how many findings each rule has.")
@click.option(
    "--show-settings", is_flag=True, help="Instead of a report: print the settings, and where each comes from."
)
@click.option("--no-cache", is_flag=True, help="Do not use results of earlier scans, and store none.")
@click.option(
    "--cache-dir",
    "cache",
    type=PATH,
    metavar="DIR",
    help="Store results in DIR (default: .graphsafe_cache in the project).",
)
@click.option(
    "-j", "--jobs", type=click.IntRange(min=1), metavar="N", help="The number of processes (default: one per core)."
)
@click.option(
    "--explain-path",
    metavar="FUNC",
    help="Instead of a report: print why FUNC is hot or not. FUNC is FILE.py:NAME, module:NAME, or the end of a NAME.",
)
def scan(
    paths: tuple[Path, ...],
    form: str | None,
    outputs: tuple[Output, ...],
    exit_zero: bool,
    write_baseline: bool,
    add_ignore: str | None,
    fix: bool,
    unsafe_fixes: bool,
    diff_fixes: bool,
    diff: str | None,
    stdin_filename: Path | None,
    captures: tuple[Path, ...],
    statistics: bool,
    show_settings: bool,
    no_cache: bool,
    explain_path: str | None,
    watch: bool,
    **asked: Any,
) -> int:
    """Find the lines that prevent a CUDA graph.

    PATH is a file or a folder. Without PATH, the working directory is scanned; `-` stands for stdin. Nothing is
    imported or run. Only code that a step reaches is checked, for example from the `forward` of a module. To add more
    code, use hot-paths in pyproject.toml, or mark a function with `# graphsafe: hot`.

    \b
    graphsafe scan src/
    graphsafe scan model.py --select GS1,GS3 --format concise
    graphsafe scan src/ -o github -o sarif=graphsafe.sarif
    graphsafe scan src/ --explain-path Sampler.draw
    graphsafe scan - --stdin-filename model.py < buffer
    graphsafe scan --diff main             # only lines that this branch changed
    graphsafe scan --write-baseline        # later scans report what is new
    graphsafe scan src/ --with graphsafe-report.json
    graphsafe scan --fix                   # repair what is surely right
    graphsafe scan --add-ignore "not in a captured region"
    """
    from graphsafe.commands.scan_modes import ScanModes, complain_of_limits, on_screen
    from graphsafe.confirmation import captures_in, confirmed, summary
    from graphsafe.ignore_comments import check_reason
    from graphsafe.scan_request.request import Asked, ScanRequest, refusal_of, source_over

    buffers = _buffers(paths, stdin_filename)
    paths = tuple(buffers) or paths or (Path(),)
    refused = {path: why for path in paths if path not in buffers and (why := refusal_of(path)) is not None}
    for why in refused.values():
        complain(why)
    there = tuple(path for path in paths if path not in refused)
    if not there:
        return BAD_REQUEST
    modes = {
        "--explain-path": explain_path is not None,
        "--write-baseline": write_baseline,
        "--add-ignore": add_ignore is not None,
        "--diff-fixes": diff_fixes,
        "--statistics": statistics,
        "--show-settings": show_settings,
    }
    named = [name for name, is_asked in modes.items() if is_asked]
    mode = named[0] if named else None
    writes = write_baseline or add_ignore is not None or fix
    refuse(
        {
            f"scan: give either {' or '.join(named)}": len(named) > 1,
            f"scan {mode} prints text; it takes neither --format nor -o": mode is not None
            and (form not in (None, "terminal") or bool(outputs)),
            "scan --watch: cannot be used with `-` or with options that change files": watch
            and (bool(buffers) or writes),
            "scan -: takes no --write-baseline, --add-ignore, --fix, --diff or --explain-path": bool(buffers)
            and (writes or diff is not None or explain_path is not None),
            f"scan: give either --fix or {mode}": fix and mode not in (None, "--statistics"),
            f"scan: give either --with or {mode or '--fix'}": bool(captures) and (fix or mode is not None),
            "scan --unsafe-fixes: give --fix or --diff-fixes too": unsafe_fixes and not (fix or diff_fixes),
            "scan --write-baseline records all findings; it takes no --diff": write_baseline and diff is not None,
        }
    )
    if add_ignore is not None:
        check_reason(add_ignore)
    runs = captures_in(captures)
    if watch:
        return _watch(there)
    check_outputs(outputs)
    request = ScanRequest(
        paths=there,
        asked=Asked(**{each.name: asked.pop(each.name) for each in fields(Asked)}),
        diff=diff,
        use_cache=not no_cache,
        with_edits=fix or diff_fixes or _shows_edits(form, outputs),
        **asked,
    )
    scan = ScanModes(request, buffers, exit_zero)
    if explain_path is not None:
        scan.explain(explain_path)
        return BAD_REQUEST if refused else OK
    if show_settings:
        scan.show_settings()
        return BAD_REQUEST if refused else OK
    if write_baseline:
        report, code = scan.write_baseline()
    elif add_ignore is not None:
        report, code = scan.add_ignores(add_ignore)
    elif fix or diff_fixes:
        report, code = scan.fix(unsafe_fixes, is_written=fix)
    else:
        hot: dict[str, set[tuple[int, int]]] = {}
        report, code = scan.report(hot if runs else None)
        report = confirmed(report, runs, hot) if runs else report
    if statistics:
        put_statistics(report)
    elif mode is None:
        config, source = scan.parts[0].config, source_over(buffers)
        put_outputs(report, form, outputs, usual_form(), config, source, on_screen(report))
    complain_of_limits(report, is_shown=mode is None and _is_on_screen(form, outputs))
    if runs and not is_quiet():
        say(summary(report), err=True)
    return BAD_REQUEST if refused else code


def _watch(paths: Sequence[Path]) -> int:
    """Run the same command after each change, until Ctrl-C. Each run is a new process, so nothing is kept in memory.
    Return the exit code."""
    import subprocess

    from graphsafe.config import config_over
    from graphsafe.own_python import command
    from graphsafe.scan_request.watch import state_of, wait_for_change

    words: list[str] = click.get_current_context().find_object(list) or []
    again = command("from graphsafe.cli import run; sys.exit(run())", *(word for word in words if word != "--watch"))
    folders = {config_over(path).root for path in paths}
    try:
        while True:
            state = state_of(folders)
            if is_live(sys.stdout):
                click.clear()
            subprocess.run(again, check=False)
            say_waiting()
            wait_for_change(folders, state)
    except KeyboardInterrupt:
        return OK


def _shows_edits(form: str | None, outputs: Sequence[Output]) -> bool:
    """Return whether one of the requested formats shows repairs."""
    asked = {output.form_or(form, "terminal") for output in outputs} if outputs else {form or "terminal"}
    return bool(asked & {"json", "sarif"})


def _is_on_screen(form: str | None, outputs: Sequence[Output]) -> bool:
    """Return whether the report and stderr are on a terminal, and the report's format shows limits there."""
    printed = [output.form_or(form, usual_form()) for output in outputs or (Output(None, None),) if not output.file]
    return "terminal" in printed and sys.stdout.isatty() and sys.stderr.isatty()


def _buffers(paths: Sequence[Path], name: Path | None) -> Mapping[Path, bytes]:
    """Return the content of stdin by the absolute path of the file for which it stands.

    The mapping is empty if stdin is not scanned.
    """
    if Path("-") not in paths:
        if name is not None:
            raise RequestError("scan --stdin-filename: give `-` as the path")
        return {}
    if len(paths) > 1:
        raise RequestError("scan -: takes no further paths")
    from graphsafe.scan.sources.source import MAX_BYTES

    data = sys.stdin.buffer.read(MAX_BYTES + 1) if sys.stdin is not None else b""
    if len(data) > MAX_BYTES:
        raise RequestError(f"scan -: larger than {MAX_BYTES // 1_000_000} MB")
    path = name or Path("-")
    if path.is_dir():
        raise RequestError(f"scan --stdin-filename: {path} is a folder")
    return {with_real_folder(path): data}
