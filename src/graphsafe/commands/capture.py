"""`graphsafe capture` on the command line."""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import click

from graphsafe.commands.gate import Gate, Shard, any_is_gone, gate_for
from graphsafe.commands.options import (
    BAD_REQUEST,
    FINDINGS,
    INTERNAL_ERROR,
    OK,
    PATH,
    Output,
    check_outputs,
    config_here,
    form_option,
    is_quiet,
    outputs_option,
    put_outputs,
    quiet_option,
    refuse,
    say_waiting,
    usual_form,
)
from graphsafe.commands.refusals import ReportsRefusals, absolute, refusals_reported, report_files
from graphsafe.console import StatusLine, check_writable, complain, is_live, put_summary, say
from graphsafe.errors import RequestError
from graphsafe.interrupts import Ended, ended_by_signals, release_interrupts

if TYPE_CHECKING:
    from graphsafe.capture.parent.supervision.servers import Server
    from graphsafe.capture.request import CaptureRequest
    from graphsafe.report.model import Report

Command = TypeVar("Command", bound=Callable[..., Any])
_WITH_TIMELINE = frozenset(("html", "trace"))
"Formats that show the timeline of a step."
_SEVERAL: Mapping[str, Any] = {"type": click.IntRange(min=2), "metavar": "N"}


def _repeatable(kind: str, metavar: str, text: str) -> Callable[[Command], Command]:
    """Return a repeatable option, such as `--device`. A function of graphsafe.capture.request parses its values."""

    def parsed(ctx: click.Context, param: click.Parameter, values: Sequence[str]) -> tuple[Any, ...]:
        from graphsafe.capture import request

        return tuple(map(getattr(request, f"parse_{kind}"), values))

    return click.option(f"--{kind}", f"{kind}s", multiple=True, callback=parsed, metavar=metavar, help=text)


@click.command(cls=ReportsRefusals, short_help="Run one step, capture and replay it, and compare.")
@click.argument("target", required=False)
@click.option("--all", "all_targets", is_flag=True, help="Capture every target under [tool.graphsafe.targets].")
@click.option("--allow-none", is_flag=True, help="With --all: succeed if no target is configured.")
@click.option("--locked", is_flag=True, help="With --all: fail only if something is worse than in graphsafe.lock.")
@click.option("--update-lock", is_flag=True, help="With --all: write the results into graphsafe.lock.")
@click.option(
    "--shard",
    metavar="K/N",
    help="With --all: capture only every N-th target, beginning with the K-th. See `report merge`.",
)
@_repeatable(
    "device",
    "DEVICE",
    "cuda, cuda:N, all, sim or sim:N. Default: the first GPU, or without a GPU the simulated device. Repeatable.",
)
@_repeatable(
    "bucket",
    "AXIS=V,V",
    "Values of a keyword argument of the factory: batch=1,2,4 or batch=8..64:8. Repeatable.",
)
@click.option(
    "--sample", **_SEVERAL, help="Prove only N of many buckets separately, but capture all buckets in one pool."
)
@_repeatable("input", "SPEC", "An argument for a module without example inputs: ids:i64[4,1]=0..31999. Repeatable.")
@click.option("--warmup", type=click.IntRange(min=0), default=3, show_default=True, help="Steps before the capture.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=300,
    show_default=True,
    help="Seconds that one child process may take.",
)
@click.option(
    "--replays",
    type=click.IntRange(min=1),
    metavar="N",
    help="Also replay N times, to find memory that grows and results that drift.",
)
@click.option("--nproc", **_SEVERAL, help="Run the target in N ranks of one process group, each on its own device.")
@click.option("--seed", type=click.IntRange(-(2**32), 2**32), default=0, show_default=True)
@click.option("--shapes", is_flag=True, help="Predict from shapes alone, without computing values. For large models.")
@click.option(
    "--watch", is_flag=True, help="Run again whenever a file is saved, until Ctrl-C. torch is imported only once."
)
@click.option("--plan", is_flag=True, help="If the whole step cannot be captured, find the parts that can.")
@click.option(
    "--emit", type=PATH, metavar="FILE", help="Write the code that applies the plan. It uses breakable-cuda-graphs."
)
@click.option(
    "--emit-for",
    type=click.Choice(["vllm", "sglang"]),
    help="With --emit: instead of code, write the names of the functions to mark in this engine.",
)
@click.option("--check", is_flag=True, help="With --plan: run the emitted code and compare it with eager steps.")
@form_option(has_timeline=True)
@outputs_option()
@quiet_option
def capture(
    target: str | None,
    all_targets: bool,
    allow_none: bool,
    locked: bool,
    update_lock: bool,
    shard: str | None,
    watch: bool,
    form: str | None,
    outputs: tuple[Output, ...],
    **asked: Any,
) -> int:
    """Run one step of TARGET, capture it, replay it on changed inputs, and say whether it is ready.

    TARGET is FILE.py:FACTORY or package.module:FACTORY, or the name of a configured target. The factory takes the
    device and returns (callable, args), or (callable, args, kwargs), or a module. The report is always written. Without
    -o FILE, it is written into graphsafe-report.json.

    \b
    graphsafe capture model.py:build_layer --device cuda:1
    graphsafe capture model.py:build_layer --device sim --bucket batch=1,2,4
    graphsafe capture model.py:build_layer --nproc 2
    graphsafe capture llama70b.py:build --shapes
    graphsafe capture --all --format github
    graphsafe capture --all --locked --shard 2/8
    """
    printed = [output.form or form or "terminal" for output in outputs if output.file is None] or [form or usual_form()]
    files = report_files(outputs)
    reported = partial(refusals_reported, target, all_targets, form, files)
    needs_all = {"--allow-none": allow_none, "--locked": locked, "--update-lock": update_lock, "--shard": bool(shard)}
    with reported():
        refuse(
            {
                "capture: give either a TARGET or --all": (target is None) != all_targets,
                **{f"capture {name}: give --all": given and not all_targets for name, given in needs_all.items()},
                "capture: --locked compares with the lock, --update-lock writes it; give one of them": locked
                and update_lock,
                "capture: --shapes proves nothing to record in a lock; remove --shapes": asked["shapes"]
                and (locked or update_lock),
            }
        )
        part = Shard.parsed(shard)
        check_outputs(files)
        if allow_none:
            config = config_here()
            if not config.targets:
                complain("nothing to capture: no target under [tool.graphsafe.targets]")
                return FINDINGS if locked and any_is_gone(config.root) else OK
        options = _options(asked, all_targets)
        nproc = options["nproc"]
        from graphsafe.api import capture_requests
        from graphsafe.capture.parent.ranks.launched import Launched

        launched = Launched.by(os.environ)
        if launched is not None and nproc not in (None, launched.size):
            raise RequestError(f"capture --nproc {nproc}: a launcher has started {launched.size} ranks")
        if watch and (launched is not None or locked or update_lock):
            raise RequestError("capture --watch: cannot be used with a launcher's ranks or with a lock")
    if launched is not None:
        release_interrupts()  # with a launcher, the ranks first wait for each other
        if launched.rank > 0:
            return launched.follow()
    shown = {*printed, *(output.form_or(form, "json") for output in files)}
    options["timeline"] = bool(shown & _WITH_TIMELINE)
    if watch:
        prove = partial(_prove, form=form, files=files, printed=printed, all_targets=all_targets)

        def requests_now() -> list[CaptureRequest]:
            with reported():
                return part.part_of(capture_requests(target, **options))

        return _watch(requests_now, prove)

    def proven(ended: Ended, **more: object) -> int:
        with reported():
            requests = part.part_of(capture_requests(target, **{**options, **more}))
            if requests:
                from graphsafe.rulebook.book import rulebook_of

                rulebook_of(requests[0].config)
            gate = gate_for(requests, locked, update_lock, part)
        return _prove(requests, form, files, printed, all_targets, ended, gate)

    if launched is None:
        with ended_by_signals() as ended:
            return proven(ended)
    with launched.lead() as leader, ended_by_signals() as ended:
        variables = tuple(leader.variables(rank) for rank in range(launched.size))
        code = proven(ended, nproc=launched.size, variables=variables)
        leader.tell(code)
        return code


def _watch(asked: Callable[[], list[CaptureRequest]], prove: Callable[..., int]) -> int:
    """Prove the same targets again whenever a file of the project changes, until a signal arrives. Return the exit
    code. All children are forked from one process."""
    from graphsafe.capture.api import kept_server
    from graphsafe.scan_request.watch import state_of, wait_for_change

    folders = {config_here().root, *(request.config.root for request in asked())}
    with ended_by_signals() as ended, kept_server() as kept:
        while True:
            state = state_of(folders)
            if is_live(sys.stdout):
                click.clear()
            try:
                prove(asked(), ended=ended, kept=kept)
            except RequestError as error:  # the user may be editing the configuration
                complain(str(error))
            if ended.by is not None:
                return OK
            say_waiting()
            try:
                with ended.breaks_off():
                    wait_for_change(folders, state)
            except KeyboardInterrupt:
                return OK


def _prove(
    requests: Sequence[CaptureRequest],
    form: str | None,
    files: Sequence[Output],
    printed: Sequence[str],
    all_targets: bool,
    ended: Ended,
    gate: Gate | None = None,
    kept: Server | None = None,
) -> int:
    """Prove the targets, write the reports, and return the exit code."""
    from graphsafe.capture.api import CaptureFault, capture_all
    from graphsafe.capture.request import INTERRUPTED as CUT_SHORT

    if not requests:
        say("nothing to capture: there are fewer targets than shards", err=True)
        put_outputs((), form, files, "json", None)
        return OK
    status = StatusLine()
    show = status.show if is_live(sys.stderr) and not is_quiet() else None
    fault: CaptureFault | None = None

    def proven(some: Sequence[CaptureRequest]) -> Sequence[Report]:
        try:
            return capture_all(some, show, ended.breaks_off, kept)
        finally:
            status.clear()

    try:
        reports = proven(requests)
    except CaptureFault as error:
        fault, reports = error, error.reports
    written = reports if all_targets else reports[0]
    config = requests[0].config
    try:
        put_outputs(written, form, files, "json", config)
    finally:  # if the disk is full, results that took minutes must not be lost
        put_outputs(written, None, [Output(None, each) for each in printed], "terminal", config)
        if "terminal" not in printed:
            _say_what_forms_leave_out(requests, reports)
        if all_targets and printed == ["terminal"]:
            names = [request.name or request.target for request in requests]
            put_summary(list(zip(names, reports, strict=True)))
    if any(limit.kind == CUT_SHORT for report in reports for limit in report.limits):
        complain("interrupted")
        return 128 + (ended.by or signal.SIGINT)

    _say_what_was_checked(requests, reports)
    passes = {} if gate is None else gate.passes(requests, reports, lambda request: proven([request])[0])
    code = max(
        _capture_code(report, request.breaks, passes.get(request.name or request.target))
        for report, request in zip(reports, requests, strict=True)
    )
    if not all(passes.values()):
        code = max(code, FINDINGS)  # the lock may also contain a target that no longer exists
    if fault is not None and fault.__cause__ is not None:
        raise fault.__cause__
    return code


def _say_what_forms_leave_out(requests: Sequence[CaptureRequest], reports: Sequence[Report]) -> None:
    """Print on stderr what only the terminal format shows: that no GPU was found, and why a verdict is inconclusive."""
    from graphsafe.capture.request import BAD_REQUEST as BAD_TARGET
    from graphsafe.report.verdict import judge

    is_remarked = not is_quiet() and not any(request.devices for request in requests)
    if is_remarked and any(one.evidence == "predicted" for one in reports):
        complain("no GPU here: predicted on the simulated device; only a run on a GPU measures")
    for report in reports:
        if any(limit.kind == BAD_TARGET for limit in report.limits):
            continue  # `_capture_code` prints why the request is wrong
        judged = [judge(device.probes) for device in report.devices or ()]
        reasons = [one.reasons for one in judged if one.verdict == "inconclusive" and one.reasons]
        if report.verdict == "inconclusive" and reasons:
            complain(f"{report.called}: {reasons[0][0]}")


def _say_what_was_checked(requests: Sequence[CaptureRequest], reports: Sequence[Report]) -> None:
    """Print on stderr that a plan's code was run and is right. If the code was not run, the report's limits say why."""
    for request, report in zip(requests, reports, strict=True):
        has_code = request.check and request.emit_for is None and report.plan is not None and report.plan.verified
        if has_code and not is_quiet() and not any(limit.kind == "emit" for limit in report.limits):
            complain(f"{report.called}: the plan's code was run, and gave the results of eager steps")


def _options(asked: Mapping[str, Any], all_targets: bool) -> dict[str, Any]:
    """Return the options of requests.

    Raises RequestError for options that cannot be used together.
    """
    emit, check, plan = asked["emit"], asked["check"], asked["plan"]
    if asked["emit_for"] is not None and emit is None:
        raise RequestError("capture: --emit-for needs --emit FILE")
    if emit is not None and all_targets:
        raise RequestError("capture: --emit writes one plan, and --all makes many")
    if check and asked["emit_for"] is None and importlib.util.find_spec("breakable_cuda_graphs") is None:
        raise RequestError('capture --check needs breakable-cuda-graphs: pip install "graphsafe[plan]"')
    if emit is not None:
        check_writable(emit, "--emit")
    if asked["shapes"]:
        others = ("plan", "emit", "check", "nproc", "replays")
        wrong = [f"--device {device}" for device in asked["devices"] if not device.startswith("sim")]
        wrong += [f"--{name}" for name in others if asked[name]]
        if wrong:
            raise RequestError(f"capture --shapes: nothing is computed on any device; remove {wrong[0]}")
    buckets: dict[str, tuple[Any, ...]] = {}
    for axis, values in asked["buckets"]:  # an axis may be given several times
        buckets[axis] = (*buckets.get(axis, ()), *values)
    return {
        **asked,
        "devices": asked["devices"] or (("sim",) if asked["shapes"] else ()),
        "buckets": buckets,
        "plan": plan or emit is not None or check,
        "emit": None if emit is None else absolute(emit),
    }


def _capture_code(report: Report, breaks: bool, passes: bool | None) -> int:
    """Return the exit code of one target.

    `passes` is the result of the comparison with the lock, or None if the lock does not contain the target.
    """
    from graphsafe.capture.request import INTERNAL, refusals

    faults = [limit for limit in report.limits if limit.kind == INTERNAL]
    for limit in faults:
        complain(f"{report.called}: {limit.what}: {limit.why}; please report this")
    wrong = refusals(report)
    for line in wrong:
        complain(line)
    if faults:
        return INTERNAL_ERROR
    if wrong:
        return BAD_REQUEST
    if passes is not None:
        return OK if passes else FINDINGS
    return OK if report.verdict == "ready" or (breaks and report.verdict == "ready-with-breaks") else FINDINGS
