"""The memory of a step and of its graph: the amount, and the lines that took it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from graphsafe.report.model import CallSite
from graphsafe.report.probes.probe import PLACE, Number, Probe, Table, later, unreported
from graphsafe.report.text import bytes_text, listed

_MOST = 3
_UNKNOWN = "no known line"


@dataclass(frozen=True, slots=True)
class HeldLine:
    """The memory that one line allocated."""

    place: str | None = field(default=None, kw_only=True, metadata=PLACE)
    "The line, or null if no Python line was running."
    bytes: int
    "The bytes that this line had allocated and that were in use when the total was largest."
    allocated: int
    count: int
    kept: int
    frames: tuple[CallSite, ...] = unreported(())


@dataclass(frozen=True, slots=True)
class Held:
    """Memory in use. Bytes are counted as requested, without the allocator's rounding."""

    bytes: int
    "The largest number of bytes that were in use at the same time."
    allocated: int
    "The total number of bytes that were allocated."
    count: int
    kept: int
    "The number of bytes that were still in use at the end."
    lines: tuple[HeldLine, ...]
    "The lines, the largest first."

    @property
    def largest_place(self) -> str:
        """The line whose allocations used the most memory, as text."""
        return _place(self.lines[0]) if self.lines else "no line"


@dataclass(frozen=True, slots=True)
class Keeping:
    """A line that keeps device memory, and the bytes that it keeps at each replay."""

    place: str | None = field(default=None, kw_only=True, metadata=PLACE)
    bytes: int
    frames: tuple[CallSite, ...] = unreported(())


@dataclass(frozen=True, slots=True)
class Moved:
    """State that was moved to other memory, and the replay after which this was found."""

    path: str
    replay: int


@dataclass(frozen=True, slots=True)
class Drift:
    """The first replay with an output that differs from the output of an eager step."""

    output: str
    replay: int
    max_abs: float | None
    floor: float | None
    moved: tuple[str, ...] = ()
    "The state that the same check found in other memory."


@dataclass(frozen=True, slots=True)
class LateFailure:
    """A replay that failed, and the last replay that is known to have ended well."""

    replay: int
    right_until: int
    message: str


@dataclass(frozen=True, slots=True)
class Growth:
    """The effect of many replays on memory and time."""

    replays: int
    compared: int
    "The number of replays that were compared with an eager step or with an earlier replay of the same inputs."
    bytes: int | None = None
    pool_bytes: int | None = None
    host_bytes: int | None = None
    leaks: str | None = None
    "The memory that keeps growing: `device` or `host`, or null."
    first_ms: float | None = None
    last_ms: float | None = None
    first_step_ms: float | None = None
    last_step_ms: float | None = None
    slows: bool | None = None
    "Whether steps take longer and longer. It is null if no time was measured."
    keeping: tuple[Keeping, ...] = ()
    moved: tuple[Moved, ...] = ()
    drifts: tuple[Drift, ...] = ()
    failure: LateFailure | None = None
    stopped: str | None = None
    "Why the run ended early: the user's code failed."

    def text(self) -> str:
        """Return in one line how much memory and time grew."""
        grown = bytes_text(self.bytes) if self.bytes is not None else "not known"
        text = f"growth in {self.replays} replays {grown}, {self.compared} of them compared"
        if self.slows and self.first_step_ms is not None and self.last_step_ms is not None:
            text += f", steps slow down from {self.first_step_ms:.3g} to {self.last_step_ms:.3g} ms"
        return text


@dataclass(frozen=True, slots=True)
class Memory(Probe):
    pool_bytes: int | None = None
    peak_bytes: int | None = None
    step: Held | None = None
    "The device memory that an eager step takes."
    pool: Held | None = None
    "The memory that the capture took from the graph's own pool. In a prediction: the memory of an eager step."
    growth: Growth | None = later()

    def text(self) -> str:
        sizes = (("pool", self.pool_bytes), ("peak", self.peak_bytes))
        parts = [f"{name} {bytes_text(size)}" for name, size in sizes if size is not None]
        return ", ".join([*parts, *([self.growth.text()] if self.growth is not None else [])])

    def sentences(self) -> Sequence[str]:
        """Return one sentence about the step's memory and one about the graph's memory, with the largest lines if they
        differ."""
        texts = []
        if self.step is not None and self.step.bytes:
            texts.append(f"a step takes {bytes_text(self.step.bytes)} at once{_at(self.step, 'bytes')}")
        if self.pool is not None and self.pool.bytes:
            uses = "would use" if self.pool_bytes is None else "uses"
            of = "" if self.pool_bytes is None else f" of its {bytes_text(self.pool_bytes)}"
            same = self.step is not None and self.pool.bytes == self.step.bytes
            where = "" if same else _at(self.pool, "bytes")
            text = f"the graph {uses} {bytes_text(self.pool.bytes)}{of} at once{where}"
            if self.pool.kept:
                text += f"; in use between replays: {bytes_text(self.pool.kept)}{_at(self.pool, 'kept')}"
            texts.append(text)
        return texts

    def tables(self) -> Sequence[Table]:
        """Return a row for each line: its share of the peak, all its bytes, its number of allocations, and the bytes
        that it keeps."""
        heads = ("line", "at once", "in all", "allocations", "kept")
        titles = (("Memory that a step takes", self.step), ("Memory that the graph uses", self.pool))
        return [
            Table(f"{title}, by line: {bytes_text(held.bytes)} at once", [heads, *map(_row, held.lines)])
            for title, held in titles
            if held is not None and held.lines
        ]

    def numbers(self) -> Sequence[Number]:
        return [Number("pool", self.pool_bytes, "bytes"), Number("peak", self.peak_bytes, "bytes")]


def _row(line: HeldLine) -> tuple[str, ...]:
    sizes = (bytes_text(line.bytes), bytes_text(line.allocated), str(line.count), bytes_text(line.kept))
    return (_place(line), *sizes)


def _at(held: Held, key: str) -> str:
    """Return the lines that use the most memory, in parentheses."""
    sizes = {line: getattr(line, key) for line in held.lines}
    lines = sorted((line for line in held.lines if sizes[line]), key=lambda line: -int(sizes[line]))
    return f" ({listed([f'{bytes_text(sizes[line])} at {_place(line)}' for line in lines], most=_MOST)})"


def _place(line: HeldLine) -> str:
    return line.place or _UNKNOWN
