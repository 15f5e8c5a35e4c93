"""`graphsafe scan` on the command line."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from graphsafe.cli_options import (
    BAD_REQUEST,
    FINDINGS,
    LEVEL,
    OK,
    PATH,
    config_for,
    form_of,
    form_option,
    rule_texts,
)
from graphsafe.console import (
    ProgressBar,
    check_writable,
    complain,
    is_live,
    put,
    put_added,
    put_hotness,
    put_settings,
    put_statistics,
    put_written,
)
from graphsafe.errors import RequestError

if TYPE_CHECKING:
    from graphsafe.report.model import Confidence, Level
    from graphsafe.report.source import Lines


def _codes(ctx: click.Context, param: click.Parameter, values: Sequence[str]) -> tuple[str, ...]:
    return tuple(code.strip() for value in values for code in value.split(",") if code.strip())


def _patterns(ctx: click.Context, param: click.Parameter, values: Sequence[str]) -> tuple[str, ...]:
    from graphsafe.ignorefile import problem_of

    for value in values:
        problem = problem_of(value)
        if problem is not None:
            raise click.BadParameter(problem)
    return tuple(values)


@click.command(short_help="Name the lines that stand in the way of a CUDA graph.")
@click.argument("paths", metavar="[PATH]...", nargs=-1, type=PATH)
@form_option
@click.option(
    "-o", "--output", type=PATH, metavar="FILE", help="Write to FILE instead of stdout; its suffix may name the form."
)
@click.option(
    "--select",
    multiple=True,
    callback=_codes,
    metavar="CODES",
    help="Only these rules: GS101,GS2. Stands in for what is configured.",
)
@click.option(
    "--extend-select",
    multiple=True,
    callback=_codes,
    metavar="CODES",
    help="These rules too, also where the configuration ignores them.",
)
@click.option(
    "--ignore", multiple=True, callback=_codes, metavar="CODES", help="Not these rules, whatever else is selected."
)
@click.option(
    "--exclude",
    multiple=True,
    callback=_patterns,
    metavar="PATTERN",
    help="Do not read these files either: as in .gitignore, from the project root; repeatable.",
)
@click.option("--fail-level", type=LEVEL, help="Exit with 1 from this level on (default: error).")
@click.option("--exit-zero", is_flag=True, help="Exit with 0 also if there are findings.")
@click.option(
    "--confidence",
    type=click.Choice(["likely", "possible"]),
    default="likely",
    help="Also report what is only possible (default: likely).",
)
@click.option(
    "--baseline",
    type=PATH,
    metavar="FILE",
    help="Known findings to leave out (default: graphsafe-baseline.toml beside the configuration, if it exists).",
)
@click.option(
    "--write-baseline", is_flag=True, help="Instead of a report: record the findings as known, to leave them out."
)
@click.option(
    "--add-ignore",
    metavar="REASON",
    help="Instead of a report: write `# graphsafe: ignore[CODE] REASON` on the lines that fail the scan.",
)
@click.option(
    "--diff", metavar="REV", help="Only findings on lines changed since the git revision REV, or since leaving it."
)
@click.option(
    "--stdin-filename", type=PATH, metavar="FILE", help="With `-`: the file of the project that stdin stands for."
)
@click.option("--statistics", is_flag=True, help="Instead of a report: how many findings each rule has.")
@click.option("--show-settings", is_flag=True, help="Instead of a report: what is in force, and where it comes from.")
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
    extend_select: tuple[str, ...],
    ignore: tuple[str, ...],
    exclude: tuple[str, ...],
    fail_level: Level | None,
    exit_zero: bool,
    confidence: Confidence,
    baseline: Path | None,
    write_baseline: bool,
    add_ignore: str | None,
    diff: str | None,
    stdin_filename: Path | None,
    statistics: bool,
    show_settings: bool,
    no_cache: bool,
    cache_dir: Path | None,
    jobs: int | None,
    explain_path: str | None,
) -> int:
    """Lint the hot path: name the lines that stand in the way of a CUDA graph.

    PATH is a file or a folder; without one it is the working directory, and `-` is what stdin holds. Nothing is
    imported and nothing is run. Findings are limited to code that a step reaches, for example from the `forward` of a
    module; configure more with hot-paths in pyproject.toml, or mark a function with `# graphsafe: hot`.

    \b
    graphsafe scan src/
    graphsafe scan model.py --select GS1,GS3 --format concise
    graphsafe scan src/ --format sarif -o graphsafe.sarif
    graphsafe scan src/ --explain-path Sampler.draw
    graphsafe scan - --stdin-filename model.py < buffer
    graphsafe scan --diff main             # only lines that this branch changed
    graphsafe scan --write-baseline        # later scans report what is new
    graphsafe scan --add-ignore "not in a captured region"
    """
    from graphsafe.baseline import api as known
    from graphsafe.baseline.baseline_file import NAME
    from graphsafe.changed_lines import changes_since, only_changed
    from graphsafe.ignore_comments import add_ignores, check_reason
    from graphsafe.report.model import failing
    from graphsafe.report.source import read_lines
    from graphsafe.rulebook import load_rulebook
    from graphsafe.scan import api
    from graphsafe.scan.incremental.cache import cache_folder
    from graphsafe.scan_settings import Asked, settings

    buffers = _buffers(paths, stdin_filename)
    paths = tuple(buffers) or paths or (Path(),)
    missing = [path for path in paths if not (path.is_file() or path.is_dir() or path in buffers)]
    for path in missing:
        complain(f"{path}: no such file or folder")
    there = [path for path in paths if path not in missing]
    if not there:
        return BAD_REQUEST
    modes = {
        "--explain-path": explain_path is not None,
        "--write-baseline": write_baseline,
        "--add-ignore": add_ignore is not None,
        "--statistics": statistics,
        "--show-settings": show_settings,
    }
    _check_mode(form, output, modes)
    if buffers and (write_baseline or add_ignore is not None or diff is not None or explain_path is not None):
        raise RequestError("scan -: takes no --write-baseline, --add-ignore, --diff or --explain-path")
    if add_ignore is not None:
        check_reason(add_ignore)
    if write_baseline and diff is not None:
        raise RequestError("scan --write-baseline records all findings; it takes no --diff")
    check_writable(output)
    changes = changes_since(diff, there) if diff is not None else None
    config = config_for(there)
    bar = ProgressBar("reading hot code")
    progress = bar.show if is_live(sys.stderr) else None
    if explain_path is not None:
        try:
            explained = api.explain_path(explain_path, there, config, jobs=jobs, progress=progress)
        finally:
            bar.clear()
        put_hotness(explained)
        return BAD_REQUEST if missing else OK
    rulebook = load_rulebook(config.rule_packs)
    asked = Asked(select, extend_select, ignore, exclude, fail_level)
    configured, config = config, asked.over(config, rulebook)
    file = baseline or config.root / NAME
    cache = None if no_cache else cache_dir or cache_folder(config)
    if show_settings:
        put_settings(settings(configured, config, asked, rulebook, file, cache))
        return BAD_REQUEST if missing else OK
    try:
        report = api.scan_paths(
            there,
            config,
            confidence=confidence,
            rulebook=rulebook,
            cache=cache,
            jobs=jobs,
            progress=progress,
            complain=complain,
            buffers=buffers,
        )
    finally:
        bar.clear()
    scope = known.scope(there, config, rulebook, confidence)
    if write_baseline:
        put_written(known.write(report, file, scope), file)
    else:
        source = _source(buffers) if buffers else None
        report = known.apply(
            report, file, scope, rulebook, must_exist=baseline is not None, source=source or read_lines
        )
        report = only_changed(report, changes) if changes is not None else report
        if statistics:
            put_statistics(report)
        elif add_ignore is None:
            put(report, form_of(output, form, "terminal"), output, rule_texts(config), source)
    for limit in report.limits:
        if limit.kind in ("no-root", "internal-error"):
            complain(f"{limit.what}: {limit.why}")
    code = FINDINGS if failing(report, config.fail_level) and not (write_baseline or exit_zero) else OK
    if add_ignore is not None:
        added = add_ignores(failing(report, config.fail_level), add_ignore)
        put_added(added)
        code = FINDINGS if added.failures else OK
    return BAD_REQUEST if missing else code


def _buffers(paths: Sequence[Path], name: Path | None) -> Mapping[Path, bytes]:
    """What stdin holds, by the absolute path of its file; empty where stdin is not asked for."""
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
    return {path.parent.resolve() / path.name: data}


def _source(buffers: Mapping[Path, bytes]) -> Lines:
    """The lines of a file, or of what stdin holds in place of it."""
    from graphsafe.report.source import file_lines, lines_in

    held = {os.path.abspath(path): lines_in(data) for path, data in buffers.items()}
    return lambda path: held[at] if (at := os.path.abspath(path)) in held else file_lines(path)


def _check_mode(form: str | None, output: Path | None, modes: Mapping[str, bool]) -> None:
    """Refuse what would be ignored: a mode other than a report is alone, and prints text."""
    asked = [mode for mode, is_asked in modes.items() if is_asked]
    if len(asked) > 1:
        raise RequestError(f"scan: give either {' or '.join(asked)}")
    if asked and (form not in (None, "terminal") or output is not None):
        raise RequestError(f"scan {asked[0]} prints text; it takes neither --format nor -o")
