"""A `Sight`, through which the watch sees graphs; CUDA and the simulated device implement it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import torch

from graphsafe.capture.answers.events import StepEvent
from graphsafe.capture.device.bits import layout_text
from graphsafe.report.ledger.model import Access
from graphsafe.report.model import CallSite
from graphsafe.run.child.names import Name, Place
from graphsafe.run.child.refills import Unordered
from graphsafe.run.child.steps import Key, Step, Steps
from graphsafe.run.child.waits import Waits
from graphsafe.run.part import Facts

Reading = Callable[[Callable[[], Collection[int]]], None]
"A function that is called with an operation's reads. Its argument returns the numbers of the storages that are read."


@dataclass(frozen=True, slots=True)
class Touch:
    """Memory outside a graph's pool that the graph reads or writes. The storage lives as long as this object."""

    storage: torch.UntypedStorage
    access: Access
    certain: bool
    "False if the address may be an ordinary number among a kernel's arguments."
    text: str
    "The shape and type, for memory without a name."
    made: CallSite | None = None

    @staticmethod
    def of(tensor: torch.Tensor, access: Access, certain: bool, made: CallSite | None) -> Touch:
        return Touch(tensor.untyped_storage(), access, certain, layout_text(tensor), made)


@dataclass(eq=False, slots=True)
class LetGo:
    """A tensor that a graph reads, with the names under which objects hold the tensor. Containers do not count."""

    names: Sequence[Name]
    capture: int
    "The number of the graph's capture, from 1."
    replays: int = 0
    lost_after: int | None = None
    "The number of replays before the first replay at which the object held another tensor."
    is_meant: bool = False
    "Whether the program may know that the graph reads the old tensor."
    instead: CallSite | None = None
    "The line that made the tensor that the object holds now, if that was after the capture."

    @property
    def is_lost(self) -> bool:
        return self.lost_after is not None and not self.is_meant


class Around(Protocol):
    """An object that is called before and after each replay of a graph."""

    def replaying(self) -> None: ...

    def replayed(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Contents:
    """The content of a graph, read when its capture ends."""

    nodes: Mapping[str, int] | None = None
    "The nodes by kind, or None if they could not be read."
    touches: Sequence[Touch] = ()
    pool_bytes: int | None = None
    outputs: Sequence[torch.Tensor] = ()
    "Tensors of the program that the graph overwrites at every replay."
    overwriters: Sequence[tuple[Any, int]] = ()
    "Earlier graphs whose replays overwrite an output, with the number of the output's storage."
    step: Step | None = None
    many_shapes: Collection[Key] = ()
    "Keys that several steps of different shapes share in the graph, so that they identify none."
    let_go: Mapping[int, LetGo] = field(default_factory=dict)
    "A storage's number -> the tensor that the graph reads there and that an object held, as far as its fate is known."
    fills: Sequence[Place] = ()
    "Memory outside the graph's pool that the graph writes and does not read, as far as that is known."
    owns: Callable[[torch.Tensor], bool] = lambda _: False
    "Returns whether a tensor lies in memory of the graph's pool that the graph's replays use, as far as that is known."
    passed_over: Callable[[], int] = int
    "Returns how many inputs of the graph's size were given to another graph, as far as that is seen."
    collectives: bool = False
    pinned: Around | None = None
    """Watches the pinned memory that the graph copies from, if the order of writes and replays on the device is not
    followed."""
    problem: str | None = None
    "The reason why the nodes could not be read."


class Sight(Protocol):
    """Sees the graphs of a device. If a method has a body, this is the default for devices that do not override it."""

    graph: Any
    "The class `CUDAGraph`, whose methods every kind of capture calls."
    evidence: Literal["measured", "predicted"]

    def device(self) -> str:
        """Return the current device: `cuda:1`, `sim:0`."""

    def stream(self) -> int:
        """Return the number of the current stream; 0 for the default one."""

    def begun(self, pool: Any, names: Mapping[int, Sequence[Name]]) -> None:
        """Record that a capture has begun in this thread, into `pool`, or into its own pool if `pool` is None. `names`
        holds the tensors that the program knows, by storage."""
        return

    def ending(self, graph: Any) -> None:
        """Record that a capture is about to end; on CUDA its nodes must be read now."""
        return

    def contents(self, graph: Any, names: Mapping[int, Sequence[Name]]) -> Contents:
        """Read a graph whose capture has ended. `names` holds the tensors that the program knows, by storage."""

    def ordering(self) -> Callable[[Mapping[int, Access]], None] | None:
        """Return the function to call before each replay with the storages that it uses; None if the order is not
        watched."""
        return None

    def owners(self, addresses: Iterable[int]) -> Mapping[int, str]:
        """For each address, return the type and shape of the tensor that has this memory now, if one is known."""
        return {}

    def refills(self) -> Sequence[Unordered]:
        """Return each pair of a write and a replay of one storage that nothing orders, by their lines."""

    def facts(self) -> Facts:
        """Return facts that only the device knows: `machine` for the ledger's environment, and the UUIDs of the `gpus`
        that have graphs. If the device can see them, also `outdated` tensors, which graphs read although the tensors
        from which they were computed have changed; and `growing`, the lines that make a tensor larger between
        replays."""

    def replaying(self, graph: Any) -> None:
        """Check a graph that is about to be replayed."""
        return

    def end(self) -> None:
        """Stop watching."""

    def watch_steps(self, steps: Steps) -> None:
        """Call `steps` for each eager step that may be the same as a captured step."""

    def unseen_steps(self) -> str | None:
        """Return the reason why eager steps cannot be seen, or None."""
        return None

    def watch_moves(self, moving: Callable[[int], None], lost: Callable[[int], None]) -> None:
        """Call `moving` with the number of a storage that a tensor leaves and that stays alive. Call `lost` with the
        number of a storage whose memory is freed although its address stays."""

    def watch_results(self, compared: Callable[[Any], None], read: Reading) -> None:
        """Call `compared` with a graph when the program compares one of its results with itself, and `read` for each
        eager operation."""
        return

    def guilty(self, graph: Any, error: BaseException) -> StepEvent | None:
        """Return the event that broke the capture of a graph, given its first error; None if it is unknown."""

    def watch_waits(self, waits: Waits) -> None:
        """Call `waits` for each line that waits for the device."""

    def is_held(self, storage: int) -> bool:
        """Return whether anything besides graphs holds this existing storage."""

    def maker(self, tensor: torch.Tensor) -> CallSite | None:
        """Return the line that made a tensor, if that line is known now."""
        return None

    def by_line(self) -> list[dict[str, Any]] | None:
        """Return bytes in graphs' pools by line (`path`, `line`, `function`, `bytes`); None if not known."""
        return None

    def draw(self) -> str | None:
        """Draw a random number and put the offset back; return the error's text if the generator is broken."""

    def limits(self) -> list[tuple[str, str, str]]:
        """Return the limits of this device, each as kind, subject and reason."""
