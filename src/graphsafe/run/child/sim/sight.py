"""Watches the graphs of a process that runs on the simulated device."""

from __future__ import annotations

import functools
import weakref
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, Literal

import torch

from graphsafe.capture.answers.build import Platform
from graphsafe.capture.answers.events import StepEvent
from graphsafe.capture.device.modes import outside_modes
from graphsafe.capture.device.protocol import MemoryEvent
from graphsafe.capture.device.sim.effects import is_recorded, op_name, table_entry, written_by
from graphsafe.capture.device.sim.function_mode import HANDLERS, SimFunctionMode
from graphsafe.capture.device.sim.graph_memory import races_of
from graphsafe.capture.device.sim.graphs import CUDAGraph
from graphsafe.capture.device.sim.nodes import Node
from graphsafe.capture.device.sim.tags import (
    HOST,
    Tag,
    born_in,
    holders,
    index_of,
    is_pinned,
    tag_of,
    tag_of_storage,
)
from graphsafe.capture.device.sim.world import World
from graphsafe.capture.device.structures import tensors_in
from graphsafe.capture.shared.collectives import is_collective
from graphsafe.capture.shared.frames import user_frames
from graphsafe.report.ledger.model import Access
from graphsafe.report.model import CallSite
from graphsafe.run.child.guilty import raised_by
from graphsafe.run.child.host_inputs import HostInputs
from graphsafe.run.child.names import Name, place_of, storage_number, storage_numbers
from graphsafe.run.child.refills import Parts, Refills, Unordered, parts_of
from graphsafe.run.child.sight import Contents, Reading, Sight, Touch
from graphsafe.run.child.sim.eager import Asked, Derived, Growing
from graphsafe.run.child.sim.lent import borrowed, would_take
from graphsafe.run.child.sim.let_go import Weights
from graphsafe.run.child.sim.order import note_writes, watch_order
from graphsafe.run.child.steps import Key, Shapes, Step, Steps
from graphsafe.run.child.waits import Waits
from graphsafe.run.facts import DeviceFacts

_OVERWRITE = frozenset({"aten::copy_", "aten::fill_", "aten::zero_", "aten::normal_", "aten::uniform_"})
"Operations that write to their first argument without reading it."
_COMPARE = frozenset(f"aten::{name}" for name in ("sub", "gt", "lt", "ge", "le", "maximum", "minimum", "fmax", "fmin"))
"Operations that are pointless if both arguments are the same tensor."


class SimSight(Sight):
    graph = CUDAGraph
    evidence: Literal["measured", "predicted"] = "predicted"

    def __init__(self, world: World, stacks: bool) -> None:
        self._world = world
        self._stacks = stacks
        self._compared: Callable[[object], None] = lambda _: None
        self._read: Reading = lambda _: None
        self._world.stepping = True
        self._refills = Refills()
        self._derived = Derived()
        self._asked = Asked()
        self._growing = Growing()
        self._weights = Weights(self.maker)
        self._host = HostInputs(self._refills)
        self._devices: dict[str, None] = {}
        self._order = ExitStack()
        self._order.enter_context(watch_order(world, self._refills, self._host))
        self._aliases: weakref.WeakKeyDictionary[CUDAGraph, Counter[int]] = weakref.WeakKeyDictionary()
        "Graph -> for each storage, how many of the graph's tensors refer to it."
        self._parts: weakref.WeakKeyDictionary[CUDAGraph, tuple[Parts, Parts]] = weakref.WeakKeyDictionary()
        "Graph -> the parts of storages that it reads, and those that it writes."
        self._pooled: weakref.WeakKeyDictionary[CUDAGraph, tuple[int, bool]] = weakref.WeakKeyDictionary()
        """Graph -> a unique negative number, which identifies the graph, and whether it has temporary memory.

        Later graphs of its pool also use this memory.
        """
        self._makers: list[dict[int, CallSite]] = [{} for _ in self._world.ledgers]
        "For each device: block -> the line that allocated it."
        for ledger, lines in zip(self._world.ledgers, self._makers, strict=True):
            ledger.on_memory_event = functools.partial(_made, lines)

    def device(self) -> str:
        return f"sim:{self._world.here.device}"

    def stream(self) -> int:
        return self._world.current_sim_stream().number

    def contents(self, graph: CUDAGraph, names: Mapping[int, Sequence[Name]]) -> Contents:
        """Return the contents of a graph whose capture has ended. The size of its pool is not simulated."""
        self._devices[self.device()] = None
        found: dict[int, Touch] = {}
        uses: list[tuple[torch.Tensor, Access]] = []
        for node in graph.nodes:
            changed = {id(tensor) for tensor in self._written(node)}
            for tensor in tensors_in([node.args, node.kwargs]):
                access: Access = "read"
                if id(tensor) in changed:
                    access = "write" if node.op in _OVERWRITE or node.op.endswith("_out") else "both"
                uses.append((tensor, access))
                self._touch(graph, tensor, access, found)
        outside = [(one, how) for one, how in uses if not born_in(one, graph.captured_in)]
        inputs = [one for one, how in outside if how != "write"]
        reads, writes = [one for one, how in uses if how != "write"], [one for one, how in uses if how != "read"]
        self._parts[graph] = parts_of(reads), parts_of(writes)
        self._refills.captured(found)
        on_host = (touch for touch in found.values() if tag_of_storage(touch.storage) is None)
        self._host.captured(on_host, self._parts[graph][0])
        passed_over = self._asked.captured(graph, inputs)
        self._derived.captured([one.storage for one in found.values() if one.access == "read"], found, names)
        written = [tensor for node in graph.nodes for tensor in node.written]
        aliases = {id(tensor): tensor for tensor in (*graph.tensors(), *written)}
        held = map(storage_number, aliases.values())
        self._aliases[graph] = Counter(number for number in held if number is not None)
        tensors = [name.tensor() for known in names.values() for name in known]
        outputs = [one for one in tensors if one is not None and born_in(one, graph.captured_in)]
        made = [one for node in graph.nodes for one in (*node.outputs, *node.written)]
        born = [one for one in made if born_in(one, graph.captured_in)]
        own = storage_numbers(born)
        is_temporary = not own <= storage_numbers(outputs)
        self._pooled[graph] = min((number for number, _ in self._pooled.values()), default=0) - 1, is_temporary
        steps = (_step(one.op, [one.args, one.kwargs], one.frames, one.recorded) for one in graph.nodes if one.frames)
        first = [step for step in steps if step is not None]
        step = next((one for one in first if len(one.shapes) > 1), first[0] if first else None)
        if step is not None:
            step = replace(step, times=sum(map(step.is_repeated_by, first)))
        with outside_modes():
            races = races_of(graph)
        return Contents(
            nodes=graph.kinds(),
            touches=tuple(found.values()),
            pool_bytes=None,
            outputs=tuple({id(one): one for one in outputs}.values()),
            step=step,
            many_shapes=_of_many_shapes(first),
            let_go=self._weights.captured(graph, found.values(), names),
            fills=_alone([one for one, how in outside if how == "write"], inputs),
            owns=lambda tensor: storage_number(tensor) in own,
            pool=graph.pool(),
            borrowed=borrowed(graph, uses, self._aliases.items()),
            takes=functools.partial(would_take, [one.untyped_storage().nbytes() for one in born]),
            passed_over=passed_over,
            races=races,
            collectives=any(is_collective(node.op) for node in graph.nodes),
        )

    def _written(self, node: Node) -> list[torch.Tensor]:
        if not isinstance(node.func, torch._ops.OpOverload):  # a collective may write to each of its arguments
            return tensors_in([node.args, node.kwargs])
        return written_by(node.func, table_entry(node.func, self._world.table), node.args, node.kwargs)

    def _touch(self, graph: CUDAGraph, tensor: torch.Tensor, access: Access, found: dict[int, Touch]) -> None:
        number, tag = storage_number(tensor), tag_of(tensor)
        outside = tag.session is None if tag is not None else is_pinned(tensor)
        if number is None or not outside or born_in(tensor, graph.captured_in):
            return
        if number in found:
            before = found[number]
            access = before.access if before.access == access else "both"
        found[number] = Touch.of(tensor, access, True, self.maker(tensor))

    def maker(self, tensor: torch.Tensor) -> CallSite | None:
        tag = tag_of(tensor)
        return None if tag is None or tag.index == HOST else self._makers[tag.index].get(id(tag))

    def is_held(self, storage: int) -> bool:
        """Return whether anything besides graphs holds the storage. Each tensor of a graph counts as one reference."""
        held = sum(self._aliases[graph][storage] for graph in list(self._world.graphs) if graph in self._aliases)
        counted = holders(storage)
        return counted is None or counted > held

    def draw(self) -> str | None:
        try:
            self._world.generators[self._world.here.device].check(capturing=False)
        except RuntimeError as error:
            return str(error)
        return None

    def facts(self) -> DeviceFacts:
        return DeviceFacts(
            machine=Platform(self.device(), torch=str(torch.__version__)),
            devices=tuple(self._devices),
            outdated=self._derived.facts(),
            growing=self._growing.facts(),
        )

    def limits(self) -> list[tuple[str, str, str]]:
        unknown = "the simulated device cannot predict it"
        found = [("simulated", what, why) for what, why in self._world.limits.items()]
        found += [("unknown-operation", what, unknown) for what in self._world.unknown]
        found.append(("simulated", "a pool's bytes", "how a graph's pool reuses memory is not simulated"))
        if self._stacks:
            why = "pools are not simulated; the lines that made tensors are recorded without --stacks too"
            found.append(("simulated", "a pool's bytes by line", why))
        return found

    def watch_steps(self, steps: Steps) -> None:
        """Call `steps` for each eager operation with which a captured step begins."""

        def ran(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], outputs: Sequence[torch.Tensor]) -> None:
            written = note_writes(self._world, self._refills, self._host, func, args, kwargs, outputs)
            name = op_name(func)
            arguments = [args, dict(kwargs)]
            inputs = tensors_in(arguments)
            self._derived.ran(name, inputs, written, outputs)
            self._asked.ran(name, args)
            self._growing.ran(inputs, outputs)
            self._weights.ran(inputs, written, outputs)
            if name in _COMPARE and (session := _same_result(args)) is not None:
                self._compared(session)
            self._read(lambda: storage_numbers(inputs) - storage_numbers(outputs))  # a view reads no memory
            if name not in steps.names:
                return
            frames, _ = user_frames()
            step = _step(name, arguments, frames, is_recorded(inputs)) if frames else None
            if step is not None:
                steps.eager(step.keys, step.shapes, step.recorded, lambda: frames)

        self._world.ran = ran

    def ordering(self) -> Callable[[Any, Mapping[int, Access]], None]:
        def replaying(graph: CUDAGraph, uses: Mapping[int, Access]) -> None:
            self._derived.replayed(uses)
            self._host.look()
            parts = self._parts.get(graph, (None, None))
            self._refills.replayed(self._world.current_sim_stream().key, uses, user_frames()[0], *parts)

        return replaying

    def refills(self) -> Sequence[Unordered]:
        return self._refills.found()

    def replaying(self, graph: CUDAGraph) -> None:
        self._growing.replayed()
        self._asked.replaying(graph)
        self._weights.replaying(graph)
        self._share(graph)

    def _share(self, graph: CUDAGraph) -> None:
        """Record that a replay uses its graph's temporary memory, if it has any. Later graphs of the pool write to this
        memory when they are replayed."""
        own, is_temporary = self._pooled.get(graph, (0, False))
        same = {known[0] for one, known in self._pooled.items() if one is not graph and one.pool() == graph.pool()}
        if same:
            uses: dict[int, Access] = {number: "read" for number in same if is_temporary and number < own}
            self._refills.replayed(self._world.current_sim_stream().key, {**uses, own: "write"}, user_frames()[0])

    def end(self) -> None:
        self._order.close()
        self._world.ran, self._world.resized = None, lambda _: None

    def watch_moves(self, moving: Callable[[int], None], lost: Callable[[int], None]) -> None:
        """Call `moving` for each storage that a tensor is about to leave; simulated graphs keep the storage alive.

        Call `lost` for each storage that is resized, although the simulated memory stays where it is. If a capture
        resizes a storage, the memory may belong to the graph, so that storage is no longer reported.
        """
        in_graphs: weakref.WeakSet[Tag] = weakref.WeakSet()

        def resized(storage: torch.UntypedStorage) -> None:
            tag = tag_of_storage(storage)
            if tag is not None and self._world.session is not None:
                in_graphs.add(tag)
            elif tag not in in_graphs:
                lost(int(storage._cdata))

        self._world.resized = resized

        def leaves(func: Any, left: Callable[[torch.Tensor], torch.Tensor | None]) -> None:
            def told(mode: SimFunctionMode, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
                with torch._C.DisableTorchFunction():
                    tensor = left(args[0])
                    number = None if tensor is None else storage_number(tensor)
                if number is not None:
                    moving(number)
                return mode.call(func, args, kwargs)

            HANDLERS[func] = told

        leaves(torch.Tensor.data.__set__, lambda tensor: tensor)  # type: ignore[attr-defined]
        leaves(torch.Tensor.resize_, lambda tensor: tensor)
        leaves(torch.Tensor.grad.__set__, lambda tensor: tensor.grad)  # type: ignore[union-attr]

    def watch_results(self, compared: Callable[[Any], None], read: Reading) -> None:
        """Call `compared` with a graph when one of its results is compared with itself.

        Such a comparison shows that the program expects the results of two different replays. Call `read` at each eager
        operation.
        """

        def seen(session: object) -> None:
            for graph in [one for one in list(self._world.graphs) if one.captured_in is session]:
                compared(graph)

        self._compared, self._read = seen, read

    def guilty(self, graph: CUDAGraph, error: BaseException) -> StepEvent | None:
        return graph.guilty or raised_by(error)

    def abandoned(self) -> StepEvent | None:
        session = self._world.session
        return None if session is None else session.first_event

    def watch_waits(self, waits: Waits) -> None:
        """Call `waits` for each line that waits for the device. The duration is not simulated."""

        def seen(event: StepEvent) -> None:
            if self._world.session is None:
                waits.note(event, None)

        self._world.sink = seen


def _made(lines: dict[int, CallSite], event: MemoryEvent) -> None:
    """Record the line that allocated a block of a device. Forget the line when the block is freed."""
    if event.place is not None:
        lines[event.block] = event.place
    elif not event.nbytes:
        lines.pop(event.block, None)


def _alone(filled: Sequence[torch.Tensor], read: Sequence[torch.Tensor]) -> tuple[range, ...]:
    """Return the memory ranges of the filled tensors whose storages are not read."""
    others = storage_numbers(read)
    alone = [one for one in filled if storage_number(one) not in others]
    return tuple({place for one in alone if (place := place_of(one)) is not None})


def _same_result(args: Sequence[Any]) -> object | None:
    """Return the capture that allocated the memory of both arguments, if they are the same tensor.

    Return None if they differ or if one of them requires a gradient: `x - x.detach()` is intended.
    """
    both = [one for one in args[:2] if isinstance(one, torch.Tensor) and not one.requires_grad]
    numbers = {storage_number(one) for one in both}
    if len(both) < 2 or len(numbers) > 1 or None in numbers:
        return None
    places = [(one.storage_offset(), one.shape, one.stride()) for one in both]
    tag = tag_of(both[0])
    return None if tag is None or places[0] != places[1] else tag.session


def _shape(tensor: torch.Tensor) -> tuple[int, ...]:
    """Return the shape that the program sees. Inside a linear layer, for example, the input is reshaped to a matrix."""
    base = tensor._base
    if base is not None and base.dim() != tensor.dim() and base.numel() == tensor.numel():
        tensor = base
    return tuple(int(size) for size in tensor.shape)


def _of_many_shapes(steps: Iterable[Step]) -> set[Key]:
    """Return the keys that have several sets of shapes in one graph, as in a loop over experts."""
    shapes: dict[Key, set[Shapes]] = defaultdict(set)
    for step in steps:
        for key in step.keys:
            shapes[key].add(step.shapes)
    return {key for key, found in shapes.items() if len(found) > 1}


def _step(name: str, arguments: Any, frames: Sequence[CallSite], recorded: bool) -> Step | None:
    """Return the step that begins with this operation. Return None if it uses no tensor of the device.

    If it uses several tensors, at least one of them is not an input, and the storage of that tensor identifies the
    step.
    """
    tensors = [tensor for tensor in tensors_in(arguments) if index_of(tensor) != HOST]
    shapes: Shapes = tuple(map(_shape, tensors))
    keys = [(name, "", number) for one in tensors if (number := storage_number(one)) is not None]
    if len(keys) < 2:
        keys = [(name, frames[-1].path, frames[-1].line)]
    return Step(tuple(keys), shapes, tuple(frames), recorded) if shapes else None
