"""`Sight`, the interface through which graphs are watched. CUDA and the simulated device implement it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import torch

from graphsafe.capture.answers.events import StepEvent
from graphsafe.capture.device.bits import layout_text
from graphsafe.report.ledger.model import Access
from graphsafe.report.model import CallSite
from graphsafe.report.probes.order import Race
from graphsafe.run.child.names import Name
from graphsafe.run.child.refills import Unordered
from graphsafe.run.child.steps import Key, Step, Steps
from graphsafe.run.child.waits import Waits
from graphsafe.run.facts import DeviceFacts, OutsideUse, PoolLine

Reading = Callable[[Callable[[], Collection[int]]], None]
"A function that is called at each eager operation. Its argument returns the numbers of the storages that are read."


@dataclass(frozen=True, slots=True)
class Touch:
    """Memory outside a graph's pool that the graph reads or writes. This object keeps the storage alive."""

    storage: torch.UntypedStorage
    access: Access
    certain: bool
    "False if the address may be an ordinary number among a kernel's arguments."
    text: str
    "The shape and type, for memory without a name."
    made: CallSite | None = None

    @property
    def number(self) -> int:
        """The number of the storage."""
        return int(self.storage._cdata)

    @staticmethod
    def of(tensor: torch.Tensor, access: Access, certain: bool, made: CallSite | None) -> Touch:
        return Touch(tensor.untyped_storage(), access, certain, layout_text(tensor), made)


@dataclass(eq=False, slots=True)
class LetGo:
    """A tensor that a graph reads, and the names under which objects hold it. Names of container elements are left
    out."""

    names: Sequence[Name]
    capture: int
    "The number of the graph's capture, from 1."
    replays: int = 0
    lost_after: int | None = None
    "The number of replays before the first replay at which the object held another tensor."
    is_meant: bool = False
    "Whether the program may intend that the graph reads the old tensor."
    instead: CallSite | None = None
    "The line that made the tensor that the object holds now, if it ran after the capture."

    @property
    def is_lost(self) -> bool:
        return self.lost_after is not None and not self.is_meant


class Around(Protocol):
    """An object that is called before and after each replay of a graph."""

    def replaying(self) -> None: ...

    def replayed(self) -> None: ...


class FreedCasts(Protocol):
    """Memory in autocast's cache that a graph reads."""

    replays: Callable[[], int]
    "Returns how often the graph was replayed."

    def facts(self) -> tuple[OutsideUse, ...]:
        """Return the memory if it was freed."""


@dataclass(frozen=True, slots=True)
class Contents:
    """The contents of a graph, read when its capture ends."""

    nodes: Mapping[str, int] | None = None
    "Kind -> the number of nodes of this kind. It is None if the nodes could not be read."
    touches: Sequence[Touch] = ()
    pool_bytes: int | None = None
    outputs: Sequence[torch.Tensor] = ()
    "Tensors of the program that the graph overwrites at every replay."
    overwriters: Sequence[tuple[Any, int]] = ()
    "Earlier graphs whose replays overwrite an output, each with the number of the output's storage."
    step: Step | None = None
    many_shapes: Collection[Key] = ()
    "Keys that several steps in the graph have in common although their shapes differ. Such a key identifies no step."
    let_go: Mapping[int, LetGo] = field(default_factory=dict)
    "Number of a storage that the graph reads -> its tensor, if an object held the tensor and the object is followed."
    fills: Sequence[range] = ()
    "Addresses outside the graph's pool that the graph writes and does not read, if the device knows them."
    owns: Callable[[torch.Tensor], bool] = lambda _: False
    """Returns whether a tensor is in the part of the pool that the graph's replays use. It returns False if the device
    does not know this."""
    pool: object = None
    borrowed: Sequence[tuple[Touch, Sequence[Any]]] = ()
    "Tensors of the pool that an earlier capture made and that the graph reads, each with other graphs that use it."
    takes: Callable[[range], bool] = lambda _: False
    """Returns whether the graph uses this range of its pool's memory, or might have got the range if the range had been
    free."""
    casts: FreedCasts | None = None
    "The memory in autocast's cache that the graph reads, if it is followed."
    passed_over: Callable[[], int] = int
    "Returns how often another graph was given an input of exactly this graph's size, if the device can see it."
    races: tuple[Race, ...] = ()
    "Pairs of operations that use the same memory and that the graph does not order, if the device can see them."
    collectives: bool = False
    pinned: Around | None = None
    """Watches the pinned memory that the graph copies from.

    It is None if the order of writes and replays is followed on the device.
    """
    problem: str | None = None
    "Why the nodes could not be read."


class Sight(Protocol):
    """Watches the graphs of one kind of device. Methods with a body are defaults."""

    graph: Any
    "The class `CUDAGraph`. Every way to capture a graph calls its methods."
    evidence: Literal["measured", "predicted"]

    def device(self) -> str:
        """Return the name of the current device: `cuda:1`, `sim:0`."""

    def stream(self) -> int:
        """Return the number of the current stream, 0 for the default stream."""

    def begun(self, pool: Any, names: Mapping[int, Sequence[Name]]) -> None:
        """Record that a capture has begun in this thread, into `pool`, or into its own pool if `pool` is None.

        `names` are the names of tensors that the program knows, by storage number.
        """
        return

    def ending(self, graph: Any) -> None:
        """Record that a capture is about to end. On CUDA, its nodes must be read now."""
        return

    def abandoned(self) -> StepEvent | None:
        """Stop following a capture that will never end. Return the event that broke it, if the device knows it."""

    def contents(self, graph: Any, names: Mapping[int, Sequence[Name]]) -> Contents:
        """Return the contents of a graph whose capture has ended. `names` are the names of the program's tensors, by
        storage number."""

    def ordering(self) -> Callable[[Any, Mapping[int, Access]], None] | None:
        """Return a function to call before each replay, with the graph and the storages that the graph uses.

        Return None if the order of writes and replays is not followed.
        """
        return None

    def owners(self, addresses: Iterable[int]) -> Mapping[int, str]:
        """Return, for each address, the type and shape of the tensor that has this memory now, if one is known."""
        return {}

    def refills(self) -> Sequence[Unordered]:
        """Return the pairs of a write and a replay that use one storage without an order. There is one pair for each
        pair of lines."""

    def facts(self) -> DeviceFacts: ...

    def replaying(self, graph: Any) -> None:
        """Check a graph that is about to be replayed."""
        return

    def end(self) -> None:
        """Stop watching."""

    def watch_steps(self, steps: Steps) -> None:
        """Call `steps` for each eager step that may be the same as a captured step."""

    def unseen_steps(self) -> str | None:
        """Return why eager steps cannot be seen, or None."""
        return None

    def watch_moves(self, moving: Callable[[int], None], lost: Callable[[int], None]) -> None:
        """Call `moving` with the number of a storage that a tensor leaves and that stays alive.

        Call `lost` with the number of a storage whose memory is freed although its address stays the same.
        """

    def watch_results(self, compared: Callable[[Any], None], read: Reading) -> None:
        """Call `compared` with a graph when the program compares one of its results with itself.

        Call `read` at each eager operation.
        """
        return

    def guilty(self, graph: Any, error: BaseException) -> StepEvent | None:
        """Return the event that broke the capture of a graph, or None if it is unknown. `error` is the first error."""

    def watch_waits(self, waits: Waits) -> None:
        """Begin to call the callback `waits` whenever a line waits for the device."""

    def is_held(self, storage: int) -> bool:
        """Return whether anything besides graphs holds this existing storage."""

    def maker(self, tensor: torch.Tensor) -> CallSite | None:
        """Return the line that made a tensor, if that line is still known."""
        return None

    def by_line(self) -> tuple[PoolLine, ...] | None:
        """Return the bytes in graphs' pools by line (`path`, `line`, `function`, `bytes`), or None if they are
        unknown."""
        return None

    def draw(self) -> str | None:
        """Draw a random number and restore the generator's offset. Return the error message if the generator is
        broken."""

    def limits(self) -> list[tuple[str, str, str]]:
        """Return the limits of this device. Each consists of a kind, a subject and a reason."""
