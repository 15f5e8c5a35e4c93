"""What the parent asks a child to do, and how the child answers: files in a folder of their own.

Files, because they work alike for a forked and a spawned child, outlive a child that dies, and can be read half-way.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphsafe.capture.processes.originals import decode, encode, monotonic, read_text, rename, sleep, write_bytes

if TYPE_CHECKING:
    from graphsafe.capture.request import CaptureRequest

FAILED = 70
"The exit status of a child in which graphsafe itself failed."


@dataclass(frozen=True, slots=True)
class Job:
    child: str
    "Which child: a name of `graphsafe.capture.child.CHILDREN`."
    folder: str
    "Where this child and its siblings write; `share` files go there under the names of their makers."
    target: str
    device: str
    "`cuda:1`, `sim:0`; empty for the child that only lists devices."
    axes: Mapping[str, Any] = field(default_factory=dict)
    inputs: tuple[Mapping[str, Any], ...] = ()
    warmup: int = 3
    seed: int = 0
    replays: int | None = None
    plain: bool = False
    "Without CUDA graphs of the target's own; see `graphsafe.capture.own_graphs.plain`."
    unvaried: tuple[str, ...] = ()
    "Inputs that must keep their values: new ones broke the process in an earlier attempt."

    buckets: tuple[Mapping[str, Any], ...] = ()
    "For the child that captures several buckets in one pool: the `axes` and the `folder` of each, in order."

    rank: int = 0
    ranks: int = 1
    rendezvous: str = ""
    "The file by which the same children of all ranks find each other; each time they are run another one."
    variables: Mapping[str, str] = field(default_factory=dict)
    "Of the environment, for this rank."

    @property
    def where(self) -> str:
        """The target's file or module."""
        return self.target.rpartition(":")[0]

    @property
    def first_seed(self) -> int:
        """Current when the target is imported and built."""
        return self.seed * 1_000_003

    @property
    def imports_for(self) -> str:
        """Imports are made outside of CUDA, so for all real devices; on a simulated one inside of it."""
        return self.device if self.device.startswith("sim") else "cuda"

    def to_json(self) -> str:
        return encode(asdict(self))

    @staticmethod
    def from_json(text: str) -> Job:
        data = decode(text)
        return Job(**{**data, **{name: tuple(data[name]) for name in ("inputs", "unvaried", "buckets")}})


def job_of(request: CaptureRequest, child: str, folder: Path, device: str, axes: Mapping[str, Any], **more: Any) -> Job:
    """What a request asks of this child on one device and bucket; `more`: what only some children are told."""
    return Job(
        child=child,
        folder=str(folder),
        target=request.target,
        device=device,
        axes=dict(axes),
        inputs=tuple(asdict(spec) for spec in request.inputs),
        warmup=request.warmup,
        seed=request.seed,
        **more,
    )


IMPORTS = "imports"
"The file in which a build child tells what it has imported."
WAITS_ALONE = "wait to have the device alone"
"The phase of a child that is ready to measure."
_ALONE, _SHARED = "alone", "shared"
_POLL = 0.005


class Channel:
    """A child's side: phases as they change, results as they are known, files for its siblings."""

    def __init__(self, job: Job) -> None:
        self.folder = Path(job.folder)
        self.name = job.child
        self.now = "start"
        "The phase that was told last."
        self._result: dict[str, Any] = {}

    def phase(self, text: str) -> None:
        self.now = text
        write_bytes(f"{self.folder}/{self.name}.phases", _line(text), append=True)

    def tell(self, **result: Any) -> None:
        """Add to the result; what was told survives the child's death."""
        self._result.update(result)
        write_json(self.folder / f"{self.name}.result", self._result)

    def wait_to_be_alone(self) -> bool:
        """Until no other child of this command uses the device; False where it was not to be had in good time."""
        self.phase(WAITS_ALONE)
        alone, shared = (self.folder / f"{self.name}.{how}" for how in (_ALONE, _SHARED))
        while not (alone.exists() or shared.exists()):
            sleep(_POLL)
        return alone.exists()

    def share(self, name: str) -> Path:
        """The path under which to write a file for siblings, with `publish` when it is complete."""
        return self.folder / f"{name}.part"

    def publish(self, name: str) -> None:
        rename(f"{self.folder}/{name}.part", f"{self.folder}/{name}")


def tell_alone(job: Job, *, shared: bool) -> None:
    """The parent's side of `wait_to_be_alone`; `shared`: others go on."""
    Path(job.folder, f"{job.child}.{_SHARED if shared else _ALONE}").touch()


def forget(job: Job) -> None:
    """What a child has answered, before the same is run again."""
    for kind in ("result", "phases", _ALONE, _SHARED):
        Path(job.folder, f"{job.child}.{kind}").unlink(missing_ok=True)


def _line(phase: str) -> bytes:
    return f"{monotonic():.3f} {' '.join(phase.splitlines())}\n".encode(errors="replace")


def read_result(folder: Path, child: str) -> dict[str, Any]:
    try:
        result: dict[str, Any] = decode(read_text(f"{folder}/{child}.result"))
    except (OSError, ValueError):
        return {}
    return result


@dataclass(frozen=True, slots=True)
class Phase:
    began: float
    "By the clock that `time.monotonic` reads in every process."
    name: str


def read_phases(folder: Path, child: str) -> list[Phase]:
    try:
        lines = read_text(f"{folder}/{child}.phases").splitlines()
    except OSError:
        return []
    parts = [line.partition(" ") for line in lines]
    return [Phase(float(began), name) for began, _, name in parts if name]


def write_json(path: Path, data: Any) -> None:
    """Beside, then renamed: a reader never sees half a file."""
    beside = f"{path}.part"
    write_bytes(beside, encode(_finite(data)).encode())
    rename(beside, str(path))


def _finite(data: Any) -> Any:
    """JSON has no NaN and no infinity; both are "no number" in a report."""
    if isinstance(data, float):
        return data if math.isfinite(data) else None
    if isinstance(data, Mapping):
        return {str(key): _finite(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [_finite(value) for value in data]
    return data
