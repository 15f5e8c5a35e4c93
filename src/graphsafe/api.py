"""What the command line does, as functions: `graphsafe.scan` and `graphsafe.capture`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from graphsafe.errors import RequestError
from graphsafe.files import with_real_folder
from graphsafe.report.model import Confidence, Level, Region, Report

if TYPE_CHECKING:
    from graphsafe.capture.request import CaptureRequest
    from graphsafe.config import AxisValue

StrPath = str | os.PathLike[str]


def scan(
    *paths: StrPath,
    select: Sequence[str] = (),
    extend_select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    exclude: Sequence[str] = (),
    fail_level: Level | None = None,
    region: Region | None = None,
    confidence: Confidence = "likely",
    baseline: StrPath | None = None,
    diff: str | None = None,
    buffers: Mapping[str, str | bytes] | Mapping[Path, str | bytes] | None = None,
    cache: bool = True,
    jobs: int | None = None,
) -> Report:
    """Lint files and folders, without importing or running any of them; without paths, the working directory.

    The options are those of `graphsafe scan`. `buffers` are what an editor holds of files in place of what is saved;
    nothing is cached of such a scan. Each finding holds its fixes as `edits`. Suppressed findings are in the report,
    with `suppressed` set. `jobs` processes read files, None means one a core where there is enough to do.

    Raises RequestError for a path that does not exist, a bad configuration, an unknown rule or git revision.
    """
    from graphsafe.scan_request import ScanRequest, joined, refusal_of, run_scan
    from graphsafe.scan_settings import Asked

    held = {with_real_folder(path): _encoded(text) for path, text in (buffers or {}).items()}
    given = tuple(Path(path) for path in paths) or tuple(held) or (Path(),)
    for path in given:
        refusal = refusal_of(path) if with_real_folder(path) not in held else None
        if refusal is not None:
            raise RequestError(refusal)
    request = ScanRequest(
        paths=given,
        asked=Asked(tuple(select), tuple(extend_select), tuple(ignore), tuple(exclude), fail_level, region),
        confidence=confidence,
        baseline=None if baseline is None else Path(baseline),
        diff=diff,
        use_cache=cache,
        jobs=jobs,
        with_edits=True,
    )
    return joined([report for _, report in run_scan(request, buffers=held)])


def _encoded(text: str | bytes) -> bytes:
    return text.encode("utf-8") if isinstance(text, str) else text


def capture(
    target: str,
    *,
    device: str | Sequence[str] = (),
    buckets: Mapping[str, Sequence[AxisValue]] | None = None,
    inputs: Sequence[str] = (),
    warmup: int = 3,
    timeout: float = 300.0,
    replays: int | None = None,
    nproc: int | None = None,
    seed: int = 0,
    plan: bool = False,
) -> Report:
    """Run one step of a target, capture it, replay it on changed inputs, and say whether it is ready.

    `target` is `FILE.py:FACTORY`, `package.module:FACTORY`, or the name of a configured target. The options are those
    of `graphsafe capture`; `inputs` are texts such as `ids:i64[4,1]=0..31999`. Everything runs in processes of its
    own: this one neither imports the target nor touches a GPU. Nothing is written.

    Whatever the target does is an answer: `report.verdict`, and a limit of kind `bad-request` where it cannot be
    imported, built or stepped. Raises RequestError for a malformed option and where there is no torch.
    """
    from graphsafe.capture.api import capture_target
    from graphsafe.capture.request import parse_device, parse_input

    devices = (device,) if isinstance(device, str) else tuple(device)
    (request,) = capture_requests(
        target,
        devices=tuple(map(parse_device, devices)),
        buckets={axis: tuple(values) for axis, values in (buckets or {}).items()},
        inputs=tuple(map(parse_input, inputs)),
        warmup=warmup,
        timeout=timeout,
        replays=replays,
        nproc=nproc,
        seed=seed,
        plan=plan,
    )
    return capture_target(request)


def capture_requests(text: str | None, **options: object) -> list[CaptureRequest]:
    """A request for the target that `text` names, or for every configured one.

    Devices and buckets that are not given come from the target's configuration. Raises RequestError.
    """
    from graphsafe.capture.request import CaptureRequest, configured_target
    from graphsafe.config import config_over

    if options["plan"] and options["nproc"] is not None:
        raise RequestError("capture --plan: it plans the step of one process, not of several ranks")
    if text is None:
        config = config_over(Path.cwd())
        if not config.targets:
            raise RequestError("capture --all: no target under [tool.graphsafe.targets]")
        targets = list(config.targets.values())
    else:
        file = Path(text.rpartition(":")[0])
        config = config_over(file if file.is_file() else Path.cwd())
        target = configured_target(text, config)
        if target is None:
            return [CaptureRequest(text, config, **options)]  # type: ignore[arg-type]
        targets = [target]
    return [
        CaptureRequest(
            target.factory_from(config.root, Path.cwd()),
            config,
            **{  # type: ignore[arg-type]
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
