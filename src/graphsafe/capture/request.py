"""A request of `graphsafe capture`, made from the command line and the configuration."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from graphsafe.capture.shared.job import InputSpec
from graphsafe.config import DEVICE, AxisValue, Config, values_in_range
from graphsafe.errors import RequestError, nearest
from graphsafe.report.model import Report

BAD_REQUEST = "bad-request"
"""The kind of `Limit` for a wrong request: the target cannot be found, imported, built or stepped eagerly, or a device
is missing. The verdict is then inconclusive, `why` is printed to stderr as one line, and the command exits with 2. A
failure that occurs only under capture or replay is a finding instead."""

INTERNAL = "internal"
"The kind of `Limit` for a failure of graphsafe itself; `why` is one line about the error."

INTERRUPTED = "interrupted"
"The kind of `Limit` for a run that was cut short by Ctrl-C or by a signal that ends the process."


def gave_no_answer(report: Report) -> bool:
    """Return whether the run could not judge the target's code. Such a report must not be written into a lock file."""
    return any(limit.kind in (BAD_REQUEST, INTERNAL, INTERRUPTED) for limit in report.limits)


def refusals(report: Report) -> list[str]:
    """Return the reasons why the request is wrong, one line each. A reason that several buckets share is returned
    once."""
    reasons: dict[str, str] = {}
    for limit in report.limits:
        if limit.kind == BAD_REQUEST:
            reasons.setdefault(limit.why, ": ".join(filter(None, (report.name, limit.what, limit.why))))
    return list(reasons.values())


DTYPES: Mapping[str, str] = {
    "bool": "bool",
    "u8": "uint8",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "f16": "float16",
    "bf16": "bfloat16",
    "f32": "float32",
    "f64": "float64",
}
"A dtype's name in `--input` -> its name in torch."

_INPUT = re.compile(
    r"(?P<name>[^\W\d]\w*):(?P<dtype>\w+)\[(?P<shape>[\d,\s]*)\](?:=(?P<low>-?[\d.eE+-]+?)\.\.(?P<high>-?[\d.eE+-]+))?"
)


@dataclass(frozen=True, slots=True)
class CaptureRequest:
    """One target to prove, over its devices and buckets. `graphsafe.capture.api.capture_target` returns a `Report` for
    it."""

    target: str
    "`FILE.py:FACTORY` or `package.module:FACTORY`; a relative file is relative to the working directory."
    config: Config
    devices: tuple[str, ...] = ()
    """`cuda`, `cuda:N`, `all`, `sim` or `sim:N`, as the user gave them. Empty means the first GPU, or `sim` if there is
    none."""
    buckets: Mapping[str, tuple[AxisValue, ...]] = field(default_factory=dict)
    "Bucket axis -> its values. Every combination of values is run."
    sample: int | None = None
    "Number of buckets that are proven one by one; None means all. All buckets are captured in one pool in any case."
    inputs: tuple[InputSpec, ...] = ()
    warmup: int = 3
    timeout: float = 300.0
    "Seconds allowed per child process."
    replays: int | None = None
    "Number of replays in the long run that looks for growth and drift; None means no long run."
    seed: int = 0
    nproc: int | None = None
    "Number of ranks that run the target together; None for a single process."
    variables: tuple[Mapping[str, str], ...] = ()
    "The environment variables that the launcher set, one mapping per rank."
    shapes: bool = False
    "Whether to predict from shapes alone, on a simulated device that computes no values."
    timeline: bool = False
    "Whether to profile a step and a replay on a GPU."
    plan: bool = False
    "Whether to plan breaks between graphs if the step cannot be captured as a whole."
    emit: Path | None = None
    "The file for the code that applies a verified plan."
    emit_for: str | None = None
    """The engine for which the code is written, one of `graphsafe.capture.plan.shared.marks.ENGINES`. None means
    breakable-cuda-graphs."""
    check: bool = False
    "Whether to run the emitted code too, and to compare its results with those of eager steps."
    breaks: bool = False
    "Whether the verdict ready-with-breaks counts as a success. If so, a step that is not ready is planned."
    declared: str | None = None
    """The support for CUDA graphs that the configuration declares. If this field is None, the declarations in the
    step's classes are used."""
    name: str | None = None
    "The target's name in the configuration."
    shard: str | None = None
    "The share of the targets that contains this target, for example `2/8`; None if all targets run."
    shown: str | None = None
    "The target's name in reports if the target was given as an object. `target` then names a temporary file."

    @property
    def called(self) -> str:
        """The target's name in reports."""
        return self.shown or self.target


def parse_device(text: str) -> str:
    """Check a value of `--device` and return it. Raises RequestError."""
    if not DEVICE.fullmatch(text):
        raise RequestError(f"--device {text}: expected cuda, cuda:N, all, sim or sim:N")
    return text


def parse_bucket(text: str) -> tuple[str, tuple[AxisValue, ...]]:
    """Parse a value of `--bucket`: `batch=1,2,8..32:8` becomes `("batch", (1, 2, 8, 16, 24, 32))`. Raises
    RequestError."""
    axis, _, values = text.partition("=")
    if not axis.isidentifier() or not all(values.split(",")):
        raise RequestError(f"--bucket {text}: expected axis=value,value, for example batch=1,2,4 or batch=8..64:8")
    try:
        return axis, tuple(
            value for part in values.split(",") for value in values_in_range(part) or (_axis_value(part),)
        )
    except ValueError as error:
        raise RequestError(f"--bucket {text}: {error}") from None


def parse_input(text: str) -> InputSpec:
    """Parse a value of `--input`, for example `ids:i64[4,1]=0..31999`. Raises RequestError."""
    match = _INPUT.fullmatch(text)
    if match is None:
        raise RequestError(f"--input {text}: expected name:dtype[shape]=low..high, for example ids:i64[4,1]=0..31999")
    if match["dtype"] not in DTYPES:
        raise RequestError(f'--input {text}: unknown dtype "{match["dtype"]}"' + nearest(match["dtype"], DTYPES))
    try:
        shape = tuple(int(size) for size in match["shape"].split(",") if size.strip())
        low, high = (None if match[bound] is None else float(match[bound]) for bound in ("low", "high"))
    except ValueError as error:
        raise RequestError(f"--input {text}: {error}") from None
    if low is not None and high is not None and low > high:
        raise RequestError(f"--input {text}: the range is empty")
    return InputSpec(match["name"], DTYPES[match["dtype"]], shape, low, high)


def _axis_value(text: str) -> AxisValue:
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
