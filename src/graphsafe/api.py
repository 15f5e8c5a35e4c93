"""Functions that do the same as the commands: `graphsafe.scan` and `graphsafe.capture`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphsafe.errors import RequestError
from graphsafe.files import with_real_folder
from graphsafe.report.model import CONFIDENCES, REGIONS, Confidence, Limit, Region
from graphsafe.report.shown import Report

if TYPE_CHECKING:
    import torch

    from graphsafe.capture.request import CaptureRequest
    from graphsafe.config import AxisValue

StrPath = str | os.PathLike[str]


def scan(
    *paths: StrPath | Sequence[StrPath],
    select: Sequence[str] = (),
    extend_select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    exclude: Sequence[str] = (),
    region: Region | None = None,
    confidence: Confidence = "likely",
    baseline: StrPath | None = None,
    diff: str | None = None,
    buffers: Mapping[str, str | bytes] | Mapping[Path, str | bytes] | None = None,
    cache: bool = True,
    jobs: int | None = None,
) -> Report:
    """Lint files and folders, without importing or running them. Without arguments, scan the working directory.

    An argument may also be a list of paths. With an empty list, nothing is scanned. The options are those of `graphsafe
    scan`. `buffers` contains an editor's unsaved contents, by path; a scan with buffers caches nothing. Each finding
    contains its fixes as `edits`. Suppressed findings are in the report, with `suppressed` set. `jobs` is the number of
    processes that read files. With None, there is one per core if there is enough to read.

    Raises RequestError for a path that does not exist, an invalid configuration, or an unknown rule or git revision.
    """
    from graphsafe.scan_request.request import Asked, ScanRequest, joined, refusal_of, run_scan

    for name, value, known in (
        ("region", region, (None, *REGIONS)),
        ("confidence", confidence, CONFIDENCES),
    ):
        if value not in known:
            raise RequestError(f"scan: {name}={value!r} is none of {', '.join(map(repr, known))}")
    if jobs is not None and jobs < 1:
        raise RequestError(f"scan: jobs={jobs} is less than 1")
    held = {with_real_folder(path): _encoded(text) for path, text in (buffers or {}).items()}
    each = [one for path in paths for one in _many(path)]
    given = tuple(map(Path, each)) or tuple(held) or (() if paths else (Path(),))
    for path in given:
        refusal = refusal_of(path) if with_real_folder(path) not in held else None
        if refusal is not None:
            raise RequestError(refusal)
    request = ScanRequest(
        paths=given,
        asked=Asked(_many(select), _many(extend_select), _many(ignore), _many(exclude), region=region),
        confidence=confidence,
        baseline=None if baseline is None else Path(baseline),
        diff=diff,
        use_cache=cache,
        jobs=jobs,
        with_edits=True,
    )
    return Report.of(joined([report for _, report in run_scan(request, buffers=held)]))


def _many(value: Any) -> tuple[Any, ...]:
    """Return a list or a single value as a tuple. A string, path, number or device is a single value. None gives an
    empty tuple."""
    if value is None:
        return ()
    return (value,) if isinstance(value, str) or not isinstance(value, Iterable) else tuple(value)


def _encoded(text: str | bytes) -> bytes:
    if isinstance(text, bytes):
        return text
    from graphsafe.scan.sources.source import encoded

    return encoded(text)


def capture(
    target: str | Callable[..., object],
    args: Sequence[object] | None = None,
    kwargs: Mapping[str, object] | None = None,
    *,
    device: str | torch.device | Sequence[str | torch.device] | None = None,
    buckets: Mapping[str, Sequence[AxisValue]] | None = None,
    inputs: Sequence[str] = (),
    warmup: int = 3,
    timeout: float = 300.0,
    replays: int | None = None,
    nproc: int | None = None,
    seed: int = 0,
    plan: bool = False,
    timeline: bool = False,
) -> Report:
    """Run one step of a target, capture it, replay it on changed inputs, and return a report with the verdict.

    `target` is `FILE.py:FACTORY`, `package.module:FACTORY`, the name of a configured target, or an object. With `args`
    or `kwargs`, the object is the step itself (a function or a module). Otherwise it is a factory, or a module with
    `example_inputs`. An object is sent to separate processes with its tensors (by cloudpickle). If all tensors are on
    the host, they are moved to the device. Otherwise the default device is the device of the tensors.

    The options are those of `graphsafe capture`. `inputs` are strings such as `ids:i64[4,1]=0..31999`. Everything runs
    in separate processes: this process neither imports the target nor uses a GPU. Nothing is written to disk.

    If the target fails, `report.verdict` says so. If it cannot be imported or built, or if its step cannot be run, the
    report has a limit of the kind `bad-request`. Raises RequestError if torch is not installed, if an option is
    invalid, if a file, factory or device does not exist, or if an object cannot be sent.
    """
    from graphsafe.capture.given import written
    from graphsafe.capture.request import parse_device, parse_input

    for name, number, least in (("warmup", warmup, 0), ("replays", replays, 1), ("nproc", nproc, 2)):
        if number is not None and number < least:
            raise RequestError(f"capture: {name}={number} is less than {least}")
    if abs(seed) > 2**32:
        raise RequestError(f"capture: seed={seed} is not between {-(2**32)} and {2**32}")
    if timeout <= 0:
        raise RequestError(f"capture: timeout={timeout} is not more than 0")
    for axis, values in (buckets or {}).items():
        if not _many(values):
            raise RequestError(f"capture: buckets: {axis} has no values")
    devices = _many(device)
    options = {
        "devices": tuple(parse_device(str(one)) for one in devices),
        "buckets": {axis: _many(values) for axis, values in (buckets or {}).items()},
        "inputs": tuple(map(parse_input, _many(inputs))),
        "warmup": warmup,
        "timeout": timeout,
        "replays": replays,
        "nproc": nproc,
        "seed": seed,
        "plan": plan,
        "timeline": timeline,
    }
    if not isinstance(target, str):
        with written(target, args, kwargs) as given:
            if not devices and given.device is not None:
                options["devices"] = (given.device,)
            (request,) = capture_requests(given.target, shown=given.shown, **options)
            report = _proven(request)
        if not given.is_on_host:
            return report
        moved = Limit("moved", given.shown, "its tensors were all on the host, and were moved to the device")
        return replace(report, limits=(*report.limits, moved))
    if args is not None or kwargs is not None:
        raise RequestError(f"capture: args and kwargs go with a function or a module, not with the target {target!r}")
    (request,) = capture_requests(target, **options)
    return _proven(request)


def _proven(request: CaptureRequest) -> Report:
    """Return the report of a request. Raises RequestError if the request is wrong and nothing could be run."""
    from graphsafe.capture.api import capture_target
    from graphsafe.capture.request import refusals

    report = capture_target(request)
    wrong = refusals(report)
    if wrong and not report.devices:
        raise RequestError(wrong[0])
    return Report.of(report)


def assert_ready(
    target: str | Callable[..., object],
    args: Sequence[object] | None = None,
    kwargs: Mapping[str, object] | None = None,
    **options: Any,
) -> Report:
    """Prove in a test that a step or a factory is ready. The arguments are those of `graphsafe.capture`.

    Raises NotReady (an AssertionError) for every other verdict, including `inconclusive`. The message shows the lines
    to blame, the user's own lines first.
    """
    from graphsafe.guard.findings import NotReady, failure_text

    __tracebackhide__ = True
    report = capture(target, args, kwargs, **options)
    if report.verdict != "ready":
        raise NotReady(failure_text(report), report)
    return report


def capture_requests(text: str | None, **options: object) -> list[CaptureRequest]:
    """Return a request for the target that `text` names, or for every configured target if `text` is None.

    A configured target is found only by its name: a factory that is given as `FILE.py:FACTORY` gets no configured
    options. Devices and buckets that are not given are taken from the target's configuration. Raises RequestError.
    """
    if options["plan"] and options["nproc"] is not None:
        raise RequestError("capture --plan: only the step of one process can be planned, not the step of several ranks")
    requests = _requests(text, options)
    if options.get("sample") is not None and not any(request.buckets for request in requests):
        raise RequestError("capture --sample: there are no buckets; give --bucket")
    return requests


def _requests(text: str | None, options: Mapping[str, Any]) -> list[CaptureRequest]:
    from graphsafe.capture.request import CaptureRequest
    from graphsafe.config import config_over

    if text is None:
        config = config_over(Path.cwd())
        if not config.targets:
            raise RequestError("capture --all: no target under [tool.graphsafe.targets]")
        targets = list(config.targets.values())
    else:
        file = Path(text.rpartition(":")[0])
        config = config_over(file if file.is_file() and "shown" not in options else Path.cwd())
        target = config.targets.get(text)
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
                "declared": target.declared,
                "name": target.name,
            },
        )
        for target in targets
    ]
