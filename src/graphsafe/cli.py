"""The command line: parse, call, print. Everything heavy is imported by the command that needs it."""

from __future__ import annotations

import contextlib
import errno
import gc
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from graphsafe import __version__
from graphsafe.console import (
    ProgressBar,
    StatusLine,
    check_writable,
    complain,
    ended_by_signals,
    put,
    put_hotness,
    put_page,
    put_summary,
)
from graphsafe.errors import RequestError

if TYPE_CHECKING:
    from graphsafe.capture.request import CaptureRequest
    from graphsafe.config import Config
    from graphsafe.report.model import Level, Report
    from graphsafe.report.rule_text import RuleTexts

OK, FINDINGS, BAD_REQUEST, INTERNAL_ERROR, INTERRUPTED = 0, 1, 2, 3, 130
REPORT_FILE = "graphsafe-report.json"
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


_PATH = click.Path(path_type=Path)
_LEVEL = click.Choice(["error", "warning", "note"])
_form = click.option("--format", "form", type=_Form(), help="The form on stdout (default: terminal), and of -o FILE.")


def _codes(ctx: click.Context, param: click.Parameter, values: Sequence[str]) -> tuple[str, ...]:
    return tuple(code.strip() for value in values for code in value.split(",") if code.strip())


def _each(parse: Callable[[str], Any]) -> Callable[[click.Context, click.Parameter, Sequence[str]], tuple[Any, ...]]:
    return lambda ctx, param, values: tuple(parse(value) for value in values)


def _parsed(name: str) -> Callable[[str], Any]:
    def parse(text: str) -> Any:
        from graphsafe.capture import request

        return getattr(request, name)(text)

    return parse


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
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=_PATH)
@_form
@click.option(
    "-o", "--output", type=_PATH, metavar="FILE", help="Write to FILE instead of stdout; its suffix may name the form."
)
@click.option("--select", multiple=True, callback=_codes, metavar="CODES", help="Only these rules: GS101,GS2.")
@click.option(
    "--ignore", multiple=True, callback=_codes, metavar="CODES", help="Not these rules, besides configured ones."
)
@click.option("--fail-level", type=_LEVEL, help="Exit with 1 from this level on (default: error).")
@click.option(
    "--confidence",
    type=click.Choice(["likely", "possible"]),
    default="likely",
    help="Also report what is only possible (default: likely).",
)
@click.option("--no-cache", is_flag=True, help="Neither use nor keep what earlier scans found.")
@click.option(
    "--cache-dir", type=_PATH, metavar="DIR", help="Keep it in DIR (default: .graphsafe_cache in the project)."
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
    config = _config_for(there)
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
    put(report, _form_of(output, form, "terminal"), output, _rules(config))
    for limit in report.limits:
        if limit.kind in ("no-root", "internal-error"):
            complain(f"{limit.what}: {limit.why}")
    return BAD_REQUEST if missing else _scan_code(report, config.fail_level)


@commands.command()
@click.argument("target", required=False)
@click.option("--all", "all_targets", is_flag=True, help="Every target under [tool.graphsafe.targets].")
@click.option(
    "--device",
    "devices",
    multiple=True,
    callback=_each(_parsed("parse_device")),
    metavar="DEVICE",
    help="cuda, cuda:N, all, sim or sim:N; repeatable. Default: the first GPU, or the simulated device.",
)
@click.option(
    "--bucket",
    "buckets",
    multiple=True,
    callback=_each(_parsed("parse_bucket")),
    metavar="AXIS=V,V",
    help="Values of a keyword argument of the factory: batch=1,2,4; repeatable.",
)
@click.option(
    "--input",
    "inputs",
    multiple=True,
    callback=_each(_parsed("parse_input")),
    metavar="SPEC",
    help="An argument of a module without example inputs: ids:i64[4,1]=0..31999; repeatable.",
)
@click.option("--warmup", type=click.IntRange(min=0), default=3, show_default=True, help="Steps before the capture.")
@click.option(
    "--timeout", type=click.FloatRange(min=0, min_open=True), default=300, show_default=True, help="Seconds, a child."
)
@click.option("--replays", type=click.IntRange(min=1), metavar="N", help="Replay N times to look for growth and drift.")
@click.option("--seed", type=int, default=0, show_default=True)
@_form
@click.option(
    "-o",
    "--output",
    type=_PATH,
    metavar="FILE",
    help=f"The report, in the form of --format, else of FILE's suffix, else JSON (default: {REPORT_FILE}, JSON).",
)
def capture(
    target: str | None,
    all_targets: bool,
    devices: tuple[str, ...],
    buckets: tuple[Any, ...],
    inputs: tuple[Any, ...],
    warmup: int,
    timeout: float,
    replays: int | None,
    seed: int,
    form: str | None,
    output: Path | None,
) -> int:
    """Run one step of TARGET, capture it, replay it on changed inputs, and say whether it is ready.

    TARGET is FILE.py:FACTORY or package.module:FACTORY, or the name of a configured target. The factory takes the
    device and returns (callable, args), or (callable, args, kwargs), or a module. The report is always written.

    \b
    graphsafe capture model.py:build_layer --device cuda:1
    graphsafe capture model.py:build_layer --device sim --bucket batch=1,2,4
    graphsafe capture --all --format github
    """
    if (target is None) != all_targets:
        raise RequestError("capture: give either a TARGET or --all")
    file = _absolute(output or Path(REPORT_FILE))
    check_writable(file)
    requests = _requests(
        target,
        devices=devices,
        buckets=dict(buckets),
        inputs=inputs,
        warmup=warmup,
        timeout=timeout,
        replays=replays,
        seed=seed,
    )
    from graphsafe.capture.api import CaptureFault, capture_all
    from graphsafe.capture.request import INTERRUPTED as CUT_SHORT

    status = StatusLine()
    fault: CaptureFault | None = None
    with ended_by_signals() as ended_by:
        try:
            reports = capture_all(requests, status.show if sys.stderr.isatty() else None)
        except CaptureFault as error:
            fault, reports = error, error.reports
        finally:
            status.clear()
        written = reports if all_targets else reports[0]
        texts = _rules(requests[0].config)
        try:
            put(written, "json" if output is None else _form_of(output, form, "json"), file, texts)
        finally:  # a full disk does not take away what took minutes
            put(written, form or "terminal", None, texts)
            if all_targets and form in (None, "terminal"):
                names = [request.name or request.target for request in requests]
                put_summary(list(zip(names, reports, strict=True)))
    if any(limit.kind == CUT_SHORT for report in reports for limit in report.limits):
        complain("interrupted")
        return 128 + (ended_by[0] if ended_by else signal.SIGINT)
    code = max(_capture_code(report, request.breaks) for report, request in zip(reports, requests, strict=True))
    if fault is not None and fault.__cause__ is not None:
        raise fault.__cause__
    return code


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

    put_page(page_for(" ".join(words), load_rulebook(_config().rule_packs)))


@commands.group(invoke_without_command=True)
@click.pass_context
def rules(context: click.Context) -> None:
    """List the rulebook; `rules test` runs the cases inside rule files."""
    if context.invoked_subcommand is None:
        from graphsafe.rulebook import load_rulebook

        listed = load_rulebook(_config().rule_packs).rules.values()
        width = max(len(rule.name) for rule in listed)
        for rule in listed:
            click.echo(f"{rule.code}  {rule.level:<7}  {rule.name:<{width}}  {rule.summary}")


@rules.command("test")
@click.argument("packs", metavar="[PACK]...", nargs=-1, type=_PATH)
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
@click.argument("file", type=_PATH)
@_form
@click.option(
    "-o", "--output", type=_PATH, metavar="FILE", help="Write to FILE instead of stdout; its suffix may name the form."
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
    put(reports, _form_of(output, form, "terminal"), output, _rules(_config()))


def _scan_code(report: Report, fail_level: Level) -> int:
    from graphsafe.report.model import LEVELS

    failing = LEVELS[LEVELS.index(fail_level) :]
    return FINDINGS if any(f.level in failing and f.suppressed is None for f in report.findings) else OK


def _form_of(output: Path | None, asked: str | None, otherwise: str) -> str:
    """The form that was asked for, else the one that the file's suffix names."""
    from graphsafe.report.forms import FORM_OF_SUFFIX

    return asked or (FORM_OF_SUFFIX.get(output.suffix.lower()) if output is not None else None) or otherwise


def _absolute(path: Path) -> Path:
    """Where a path leads now, whatever becomes of the working directory. Raises RequestError."""
    try:
        return path.absolute()
    except OSError:
        raise RequestError("the working directory does not exist any more") from None


def _capture_code(report: Report, breaks: bool) -> int:
    from graphsafe.capture.request import BAD_REQUEST as BAD
    from graphsafe.capture.request import INTERNAL

    for limit in report.limits:
        if limit.kind == INTERNAL:
            complain(f"{report.target}: {limit.what}: {limit.why}; please report this")
    wrong = [limit for limit in report.limits if limit.kind == BAD]
    for limit in wrong:
        complain(f"{limit.what}: {limit.why}")
    if wrong:
        return BAD_REQUEST
    return OK if report.verdict == "ready" or (breaks and report.verdict == "ready-with-breaks") else FINDINGS


def _requests(text: str | None, **options: Any) -> list[CaptureRequest]:
    """One request per target; options that are not given come from the target's configuration."""
    from graphsafe.capture.request import CaptureRequest, configured_target

    if text is None:
        config = _config()
        if not config.targets:
            raise RequestError("capture --all: no target under [tool.graphsafe.targets]")
        targets = list(config.targets.values())
    else:
        file = Path(text.rpartition(":")[0])
        config = _config_for([file]) if file.is_file() else _config()
        target = configured_target(text, config)
        if target is None:
            return [CaptureRequest(text, config, **options)]
        targets = [target]
    return [
        CaptureRequest(
            target.factory_from(config.root, Path.cwd()),
            config,
            **{
                **options,
                "devices": options["devices"] or target.devices,
                "buckets": options["buckets"] or target.buckets,
                "breaks": target.breaks,
                "name": target.name,
            },
        )
        for target in targets
    ]


def _rules(config: Config) -> Callable[[], RuleTexts]:
    """A loader of the rules' texts, for the forms that show them."""

    def load() -> RuleTexts:
        from graphsafe.rulebook import load_rulebook

        return load_rulebook(config.rule_packs).rules

    return load


def _config() -> Config:
    return _config_for([Path.cwd()])


def _config_for(paths: Sequence[Path]) -> Config:
    from graphsafe.config import load_config

    absolute = [path.absolute() for path in paths]
    try:
        return load_config(Path(os.path.commonpath(absolute)))
    except ValueError:  # paths on several drives
        return load_config(absolute[0])
