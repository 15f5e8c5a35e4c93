"""`graphsafe capture` on the command line."""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from graphsafe.api import capture_requests
from graphsafe.commands.options import (
    BAD_REQUEST,
    FINDINGS,
    OK,
    PATH,
    Output,
    check_outputs,
    config_here,
    form_option,
    outputs_option,
    put_outputs,
    rule_texts,
)
from graphsafe.console import StatusLine, check_writable, complain, ended_by_signals, is_live, put_summary
from graphsafe.errors import RequestError

if TYPE_CHECKING:
    from graphsafe.capture.request import CaptureRequest
    from graphsafe.report.model import Report

REPORT_FILE = "graphsafe-report.json"


def _each(parse: Callable[[str], Any]) -> Callable[[click.Context, click.Parameter, Sequence[str]], tuple[Any, ...]]:
    return lambda ctx, param, values: tuple(parse(value) for value in values)


def _parsed(name: str) -> Callable[[str], Any]:
    def parse(text: str) -> Any:
        from graphsafe.capture import request

        return getattr(request, name)(text)

    return parse


@click.command(short_help="Run one step, capture and replay it, and compare.")
@click.argument("target", required=False)
@click.option("--all", "all_targets", is_flag=True, help="Every target under [tool.graphsafe.targets].")
@click.option("--allow-none", is_flag=True, help="With --all: it is a success if no target is configured.")
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
    help="Values of a keyword argument of the factory: batch=1,2,4 or batch=8..64:8; repeatable.",
)
@click.option(
    "--sample",
    type=click.IntRange(min=2),
    metavar="N",
    help="Prove N of many buckets by themselves, and capture all of them in one pool.",
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
@click.option(
    "--nproc",
    type=click.IntRange(min=2),
    metavar="N",
    help="Run the target in N ranks of one process group, a device each.",
)
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--plan", is_flag=True, help="Find which parts can be captured where the whole step cannot.")
@click.option(
    "--emit", type=PATH, metavar="FILE", help="Write the code that applies the plan, on breakable-cuda-graphs."
)
@click.option(
    "--emit-for", type=click.Choice(["vllm", "sglang"]), help="With --emit: the functions to mark in that engine."
)
@click.option("--check", is_flag=True, help="With --plan: run the emitted code and compare it with eager steps.")
@form_option
@outputs_option
def capture(
    target: str | None,
    all_targets: bool,
    allow_none: bool,
    devices: tuple[str, ...],
    buckets: tuple[Any, ...],
    sample: int | None,
    inputs: tuple[Any, ...],
    warmup: int,
    timeout: float,
    replays: int | None,
    nproc: int | None,
    seed: int,
    plan: bool,
    emit: Path | None,
    emit_for: str | None,
    check: bool,
    form: str | None,
    outputs: tuple[Output, ...],
) -> int:
    """Run one step of TARGET, capture it, replay it on changed inputs, and say whether it is ready.

    TARGET is FILE.py:FACTORY or package.module:FACTORY, or the name of a configured target. The factory takes the
    device and returns (callable, args), or (callable, args, kwargs), or a module. The report is always written, into
    graphsafe-report.json where no -o FILE is given.

    \b
    graphsafe capture model.py:build_layer --device cuda:1
    graphsafe capture model.py:build_layer --device sim --bucket batch=1,2,4
    graphsafe capture model.py:build_layer --nproc 2
    graphsafe capture --all --format github
    """
    if (target is None) != all_targets:
        raise RequestError("capture: give either a TARGET or --all")
    if allow_none and not all_targets:
        raise RequestError("capture --allow-none: give --all")
    if allow_none and not config_here().targets:
        complain("nothing to capture: no target under [tool.graphsafe.targets]")
        return OK
    printed = [output.form or "terminal" for output in outputs if output.file is None] or [form or "terminal"]
    files = [Output(_absolute(output.file), output.form) for output in outputs if output.file is not None]
    files = files or [Output(_absolute(Path(REPORT_FILE)), "json")]
    check_outputs(files)
    _check_plan(emit, emit_for, check, all_targets)
    plan = plan or emit is not None or check
    from graphsafe.capture.ranks.launched import Launched

    launched = Launched.by(os.environ)
    if launched is not None and nproc not in (None, launched.size):
        raise RequestError(f"capture --nproc {nproc}: a launcher has started {launched.size} ranks")
    if launched is not None and launched.rank > 0:
        return launched.follow()
    options = {
        "devices": devices,
        "buckets": dict(buckets),
        "sample": sample,
        "inputs": inputs,
        "warmup": warmup,
        "timeout": timeout,
        "replays": replays,
        "nproc": nproc,
        "seed": seed,
        "plan": plan,
        "emit": None if emit is None else _absolute(emit),
        "emit_for": emit_for,
        "check": check,
    }
    if launched is None:
        return _prove(capture_requests(target, **options), form, files, printed, all_targets)
    with launched.lead() as leader:
        variables = tuple(leader.variables(rank) for rank in range(launched.size))
        requests = capture_requests(target, **{**options, "nproc": launched.size, "variables": variables})
        code = _prove(requests, form, files, printed, all_targets)
        leader.tell(code)
        return code


def _prove(
    requests: Sequence[CaptureRequest],
    form: str | None,
    files: Sequence[Output],
    printed: Sequence[str],
    all_targets: bool,
) -> int:
    """Run them and write what came of it; the exit code."""
    from graphsafe.capture.api import CaptureFault, capture_all
    from graphsafe.capture.request import INTERRUPTED as CUT_SHORT

    status = StatusLine()
    fault: CaptureFault | None = None
    with ended_by_signals() as ended_by:
        try:
            reports = capture_all(requests, status.show if is_live(sys.stderr) else None)
        except CaptureFault as error:
            fault, reports = error, error.reports
        finally:
            status.clear()
        written = reports if all_targets else reports[0]
        texts = rule_texts(requests[0].config)
        try:
            put_outputs(written, form, files, "json", texts)
        finally:  # a full disk does not take away what took minutes
            put_outputs(written, None, [Output(None, each) for each in printed], "terminal", texts)
            if all_targets and printed == ["terminal"]:
                names = [request.name or request.target for request in requests]
                put_summary(list(zip(names, reports, strict=True)))
    if any(limit.kind == CUT_SHORT for report in reports for limit in report.limits):
        complain("interrupted")
        return 128 + (ended_by[0] if ended_by else signal.SIGINT)
    code = max(_capture_code(report, request.breaks) for report, request in zip(reports, requests, strict=True))
    if fault is not None and fault.__cause__ is not None:
        raise fault.__cause__
    return code


def _check_plan(emit: Path | None, emit_for: str | None, check: bool, all_targets: bool) -> None:
    """Raises RequestError for options that do not go together."""
    if emit_for is not None and emit is None:
        raise RequestError("capture: --emit-for needs --emit FILE")
    if emit is not None and all_targets:
        raise RequestError("capture: --emit writes one plan, and --all makes many")
    if check and emit_for is None and importlib.util.find_spec("breakable_cuda_graphs") is None:
        raise RequestError('capture --check needs breakable-cuda-graphs: pip install "graphsafe[plan]"')
    if emit is not None:
        check_writable(emit)


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
