"""Passes a job from the parent to a child, and the child's answers back, through files in a separate folder.

Files work in the same way for a forked child and for a new interpreter, survive a child that dies, and can be read
while the child runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from graphsafe.capture.processes.originals import (
    decode,
    encode,
    leave,
    monotonic,
    process_id,
    read_text,
    rename,
    sleep,
    write_bytes,
)
from graphsafe.capture.shared.answers import Answers, written
from graphsafe.report.reading import read

FAILED = 70
"The exit status of a child in which graphsafe itself failed."
CAPTURE = "capture"
"The phase of a child that captures the step."
WAITS_FOR_RANKS = "wait for the other ranks"
"The phase of a child that has made its own steps and waits for the results of other ranks."
REFERENCE, EAGER_ROUNDS = "reference", "eager-rounds"
"The children for whose files other children wait."
OWN_INPUTS = "the step's own inputs"
"While a build child runs the step on the step's own inputs, its phase is `try` followed by this string."


@dataclass(frozen=True, slots=True)
class InputSpec:
    """A value of `--input`, for example `ids:i64[4,1]=0..31999`. The value describes an argument of the module's
    `forward`, by name."""

    name: str
    dtype: str
    "The dtype's name in torch, for example `int64`."
    shape: tuple[int, ...]
    low: float | None = None
    high: float | None = None
    """Both bounds are included in the range. Without bounds, floats are normally distributed, and integers and booleans
    are 0 or 1."""


@dataclass(frozen=True, slots=True)
class PoolMember:
    """A bucket that is captured together with others."""

    axes: Mapping[str, Any]
    folder: str
    "The folder in which the bucket's own children have written their files."
    alone_bytes: int | None
    "Number of bytes that the bucket's graph holds in a pool of its own."


@dataclass(frozen=True, slots=True)
class Job:
    child: str
    "The kind of child, a key of `graphsafe.capture.child.work.CHILDREN`."
    folder: str
    """The folder for the files of this child and of the other children of the same bucket. The names of most files
    begin with the kind of the child that writes them."""
    target: str
    device: str
    "`cuda:1` or `sim:0`. Empty for the child that only lists devices."
    axes: Mapping[str, Any] = field(default_factory=dict)
    inputs: tuple[InputSpec, ...] = ()
    warmup: int = 3
    seed: int = 0
    replays: int | None = None
    plain: bool = False
    "Whether to build the target without its own CUDA graphs; see `graphsafe.capture.child.own_graphs.plain`."
    shapes: bool = False
    "Whether to run on a simulated device that computes no values."
    captured: bool = False
    "Whether a capture of the step is known to work."
    unvaried: tuple[str, ...] = ()
    "Inputs that must keep their values, because new values broke the process in an earlier attempt."

    buckets: tuple[PoolMember, ...] = ()
    "The buckets in order, for the child that captures several buckets in one pool."

    rank: int = 0
    ranks: int = 1
    rendezvous: str = ""
    "The file through which the children of one kind, one in each rank, connect. Each run has a new file."
    variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def where(self) -> str:
        """The target's file or module."""
        return self.target.rpartition(":")[0]

    @property
    def first_seed(self) -> int:
        """The seed that is set before the target is imported and built."""
        return self.seed * 1_000_003

    @property
    def imports_for(self) -> str:
        """The device for which modules are imported. Imports do not use CUDA, so all real devices can share them, and
        the result is `cuda` for each real device. A simulated device is entered before the imports."""
        return self.device if self.device.startswith("sim") else "cuda"

    def to_json(self) -> str:
        return encode(asdict(self))

    @staticmethod
    def from_json(text: str) -> Job:
        return read(Job, decode(text))


IMPORTS = "imports"
"The file in which a build child lists its imports."
WAITS_ALONE = "wait to have the device alone"
"The phase of a child that is ready to measure."
_ALONE, _SHARED = "alone", "shared"
_POLL = 0.005
_MAX_PHASES = 4_000_000
"The largest size in bytes of a list of phases, which is read again and again."


class Channel:
    """The child's side of a job. The channel writes phases when they change, answers when they are known, and files for
    the other children."""

    def __init__(self, job: Job) -> None:
        self.folder = Path(job.folder)
        self.name = job.child
        self.now = "start"
        self._result: dict[str, Any] = {}
        self._process = process_id()

    def phase(self, text: str) -> None:
        self._exit_in_fork()
        self.now = text
        line = f"{monotonic():.3f} {' '.join(text.splitlines())}\n".encode(errors="replace")
        write_bytes(f"{self.folder}/{self.name}.phases", line, append=True)

    def send(self, *answers: object) -> None:
        """Write answers, which replace earlier ones of the same kind. Answers survive the child's death."""
        self._exit_in_fork()
        self._result |= written(*answers)
        write_json(self.folder / f"{self.name}.result", self._result)

    def wait_to_be_alone(self) -> bool:
        """Wait until no other child of this command uses the device. Return False if other children still use it and
        the wait took too long."""
        self.phase(WAITS_ALONE)
        alone, shared = (self.folder / f"{self.name}.{how}" for how in (_ALONE, _SHARED))
        while not (alone.exists() or shared.exists()):
            sleep(_POLL)
        return alone.exists()

    @contextmanager
    def shared_file(self, name: str) -> Iterator[str]:
        """Yield the path to which the caller writes a file for other children. The others see the file only when it is
        complete."""
        self._exit_in_fork()
        yield f"{self.folder}/{name}.part"
        self._exit_in_fork()
        rename(f"{self.folder}/{name}.part", f"{self.folder}/{name}")

    def _exit_in_fork(self) -> None:
        """If the target has forked the child, exit in the fork, because a fork must not write a second answer."""
        if process_id() != self._process:
            leave(0)


def ended_marker(child: str) -> str:
    """Return the name of the file with which the parent tells other children that a child has ended."""
    return f"{child}.gone"


def grant_device(job: Job, *, shared: bool) -> None:
    """Let a child in `wait_to_be_alone` continue. `shared` says that other children still use the device."""
    Path(job.folder, f"{job.child}.{_SHARED if shared else _ALONE}").touch()


def forget(job: Job) -> None:
    """Remove the answers of a child before it runs again."""
    for kind in ("result", "phases", _ALONE, _SHARED):
        Path(job.folder, f"{job.child}.{kind}").unlink(missing_ok=True)


def read_answers(folder: Path, child: str) -> Answers:
    """Return the answers that a child has written so far. A file with other content counts as empty."""
    try:
        data = decode(read_text(f"{folder}/{child}.result"))
    except (OSError, ValueError, RecursionError):
        return Answers()
    return Answers(data if isinstance(data, dict) else {})


@dataclass(frozen=True, slots=True)
class Phase:
    began: float
    "The time at which the phase began, on the clock of `time.monotonic`, which is the same in every process."
    name: str


def read_phases(folder: Path, child: str) -> list[Phase]:
    try:
        lines = read_text(f"{folder}/{child}.phases", _MAX_PHASES).splitlines()
        parts = [line.partition(" ") for line in lines]
        return [Phase(float(began), name) for began, _, name in parts if name]
    except (OSError, ValueError):  # the target has written to the file
        return []


def write_answers(folder: Path, name: str, *answers: object) -> None:
    """Write answers to the file from which `read_answers` reads."""
    write_json(folder / f"{name}.result", written(*answers))


def write_json(path: Path, data: Any) -> None:
    """Write JSON values to a new file and rename it, so that no reader sees an incomplete file."""
    beside = f"{path}.part"
    write_bytes(beside, encode(data).encode())
    rename(beside, str(path))
