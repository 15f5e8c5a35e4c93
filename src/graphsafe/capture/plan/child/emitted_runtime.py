"""The runtime of emitted code. The runtime is the same for every plan: `emit.py` copies this file, and the file of this
folder that it imports.

A pass that captures is itself a step: each graph is replayed as soon as it has been captured, so that the eager code
after the graph sees real values. Results of eager code are in tensors of the captured pass, into which later results
are copied.
"""

from __future__ import annotations

import contextvars
import inspect
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from types import CellType, FunctionType, ModuleType, SimpleNamespace
from typing import Any

import torch
from breakable_cuda_graphs import (
    BreakableCUDAGraph,
    breakable_graph,
    is_in_breakable_graph,
    no_graph,
)
from torch.utils._pytree import tree_flatten

from graphsafe.capture.plan.child.copies import (
    cloned_tensors,
    copy_all,
    copy_values,
    repeated_dimensions,
    storage_address,
    surroundings,
)

# -- begin --


class PlanBroken(RuntimeError):
    """Raised if eager code returned another number, structure or size than at capture. The graphs after the eager code
    hold the captured value.

    The step is only half finished. Restore its state before you continue eagerly.
    """


_running: contextvars.ContextVar[bool] = contextvars.ContextVar("an eager break is running", default=False)
_last: contextvars.ContextVar[_Visit | None] = contextvars.ContextVar("the break that returned last", default=None)


@dataclass(eq=False)
class _Visit:
    """One visit of an eager break. Its arguments are the same objects in every replay."""

    body: Callable[..., Any]
    arguments: tuple[Any, ...]
    private: tuple[int, ...]
    state: tuple[tuple[Any, str], ...]
    returns: bool
    result: Any = None
    captured: bool = False
    surroundings: Callable[[], AbstractContextManager[Any]] = field(init=False)
    held: list[Any] = field(default_factory=list)

    def run(self) -> None:
        token = _running.set(True)
        try:
            if not self.captured:
                self.held = [getattr(owner, name, None) for owner, name in self.state]
                self.surroundings = surroundings()
            with self.surroundings():
                new = self.body(*self.arguments)
            if self.captured:
                self.hand_over(new)
            else:
                self.keep(new)
        finally:
            _running.reset(token)

    def keep(self, new: Any) -> None:
        """Keep the first results, into which all later results are copied.

        Views of state whose memory changes are cloned.
        """
        if self.private:
            parts = new if isinstance(new, tuple) else (new,)
            parts = tuple(cloned_tensors(part) if at in self.private else part for at, part in enumerate(parts))
            new = parts if isinstance(new, tuple) else parts[0]
        moving = {storage_address(tensor) for tensor in self.held if isinstance(tensor, torch.Tensor)}
        if any(storage_address(tensor) in moving for tensor in _tensors(new)):
            new = cloned_tensors(new)
        self.result, self.captured = new, True
        self.hand_over(new)

    def hand_over(self, new: Any) -> None:
        pairs = [] if self.returns else self.pairs(new)
        self.result = new if self.returns else self.result
        bound = []
        for (owner, name), held in zip(self.state, self.held, strict=True):
            now = getattr(owner, name, None)
            if isinstance(now, torch.Tensor) and held is not now and _is_like(held, now):
                pairs.append((held, now))
                bound.append((owner, name, held))
        copy_all(pairs)
        for owner, name, held in bound:
            setattr(owner, name, held)

    def pairs(self, new: Any) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Return pairs of a tensor in the first results and the new tensor to copy into it. Raises PlanBroken."""
        if new is None and self.result is None:
            return []
        leaves, shape = _flat(self.result)
        others, other_shape = _flat(new)
        if shape != other_shape:
            raise PlanBroken(f"{self.body.__name__} gave {other_shape} where {shape} was captured")
        pairs = []
        for leaf, other in zip(leaves, others, strict=True):
            if isinstance(leaf, torch.Tensor) and isinstance(other, torch.Tensor):
                fits = (leaf.shape, leaf.dtype) == (other.shape, other.dtype)
                if not fits or not set(repeated_dimensions(leaf)) <= set(repeated_dimensions(other)):
                    raise PlanBroken(f"{self.body.__name__} gave {tuple(other.shape)} for {tuple(leaf.shape)}")
                if leaf is not other and (leaf.data_ptr(), leaf.stride()) != (other.data_ptr(), other.stride()):
                    pairs.append((leaf, other))
            elif isinstance(leaf, (bool, int, float, str, type(None))) and leaf != other:
                raise PlanBroken(f"{self.body.__name__} gave {other!r} where {leaf!r} was captured")
        return pairs


def _flat(value: Any) -> tuple[list[Any], Any]:
    """Flatten like `tree_flatten`, but do not call that slow function for a single tensor."""
    return ([value], None) if isinstance(value, torch.Tensor) else tree_flatten(value)


def _tensors(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_flatten(value)[0] if isinstance(leaf, torch.Tensor)]


@no_graph  # type: ignore[untyped-decorator, unused-ignore]
def _eagerly(visit: _Visit) -> None:
    visit.run()


def eager(
    body: Callable[..., Any],
    *arguments: Any,
    private: tuple[int, ...] = (),
    state: tuple[tuple[Any, str], ...] = (),
    returns: bool = False,
) -> Any:
    """Run `body(*arguments)` eagerly in every step.

    `private` has the indices of results that are views of memory which changes from step to step. `state` names
    attributes that the body binds to new tensors and that graphs read. With `returns`, no graph reads the body's
    result, so each step may return another object.
    """
    if _running.get() or not is_in_breakable_graph():
        return body(*arguments)
    visit = _Visit(body, arguments, private, state, returns)
    _eagerly(visit)
    if returns:
        _last.set(visit)
    return visit.result


def returned(value: Any) -> Any:
    """Return an object whose attribute `result` is this value.

    If the last eager break returned the value, each replay updates `result`.
    """
    last = _last.get()
    return last if last is not None and last.result is value else SimpleNamespace(result=value)


_EMPTY = "The CUDA Graph is empty"


@contextmanager
def _noting_empty_graphs() -> Iterator[Callable[[], bool]]:
    """Yield a function that returns whether a graph without work was captured since its last call.

    PyTorch reports this only in a warning, which is not shown here. Other warnings are shown as before.
    """
    noted: list[str] = []
    with warnings.catch_warnings():
        show = warnings.showwarning

        def note(message: Warning | str, *about: Any, **options: Any) -> None:
            if str(message).startswith(_EMPTY):
                noted.append(_EMPTY)
            else:
                show(message, *about, **options)

        warnings.filterwarnings("always", message=_EMPTY)
        warnings.showwarning = note

        def was_empty() -> bool:
            found = bool(noted)
            noted.clear()
            return found

        yield was_empty


class PlannedStep:
    """A step as graphs with eager breaks between them. Calls with other shapes, or with other arguments that are not
    tensors, run eagerly.

    The outputs are the same tensors each time, unless an eager break returns them. The warm-up and the capture are
    steps too: they change state as steps do.
    """

    def __init__(
        self,
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any] | None = None,
        *,
        warmup: int = 2,
    ) -> None:
        self.fn, self.args, self.kwargs = fn, args, dict(kwargs or {})
        leaves, self._shape = tree_flatten((self.args, self.kwargs))
        self._leaves = leaves
        device = next((leaf.device for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.is_cuda), None)
        self._graph = BreakableCUDAGraph()
        stream: Any = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        current = torch.cuda.current_stream(device)
        stream.wait_stream(current)
        with torch.cuda.stream(stream):
            for _ in range(warmup):
                fn(*self.args, **self.kwargs)
            self._outputs = returned(self._capture(stream))
        current.wait_stream(stream)

    def _capture(self, stream: Any) -> Any:
        """Capture one step and return its outputs.

        The package breakable-cuda-graphs captures one graph after another without running any. The eager code between
        the graphs would then read memory that was never written. A graph is empty if there is no work between two
        breaks, or after a break that ends the step. The package has no public names for its graphs.
        """
        empty: list[Any] = []
        with _noting_empty_graphs() as was_empty:

            def replay_last() -> None:
                last = self._graph._segments[-1]
                if was_empty():
                    empty.append(last)
                else:
                    last.replay()

            with breakable_graph(self._graph, stream=stream, barrier_fn=replay_last):
                outputs = self.fn(*self.args, **self.kwargs)
            replay_last()
        # Empty graphs are removed only now: a pool is freed together with its only graph.
        self._graph._segments[:] = [one for one in self._graph._segments if one not in empty]
        return outputs

    @property
    def outputs(self) -> Any:
        """The outputs of the last step."""
        return self._outputs.result

    def fits(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
        """Return whether the graphs are valid for these inputs."""
        leaves, shape = tree_flatten((args, dict(kwargs)))
        return bool(shape == self._shape) and all(map(_is_like, self._leaves, leaves))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run one step on these inputs. Raises PlanBroken."""
        if not self.fits(args, kwargs):
            return self.fn(*args, **kwargs)
        for own, new in zip(self._leaves, tree_flatten((args, kwargs))[0], strict=True):
            if isinstance(own, torch.Tensor) and own is not new:
                copy_values(own, new)
        self.replay()
        return self.outputs

    def replay(self) -> None:
        """Run one step on the current values of the inputs. Raises PlanBroken."""
        self._graph.replay()


def _is_like(own: Any, other: Any) -> bool:
    if isinstance(own, torch.Tensor):
        if not isinstance(other, torch.Tensor):
            return False
        return (own.shape, own.dtype, own.device) == (other.shape, other.dtype, other.device)
    return bool(type(own) is type(other) and own == other)


def _within(fn: Any, name: str) -> Any:
    """Return the function of this name. The function is the step itself, or is found inside the step or in its
    variables and attributes."""
    left, seen = [fn], set[int]()
    while left:
        held = left.pop(0)
        if id(held) in seen:
            continue
        seen.add(id(held))
        if isinstance(held, FunctionType) and held.__qualname__ == name and not hasattr(held, "__wrapped__"):
            return held
        left += _held_by(held)
    raise TypeError(f"{fn} is not the step that this plan was made for: it reaches no {name}")


def _held_by(held: Any) -> list[Any]:
    if isinstance(held, dict):
        return list(held.values())
    if isinstance(held, (list, tuple)):
        return list(held)
    if isinstance(held, (type, ModuleType, torch.Tensor)):
        return []
    found = [getattr(held, way, None) for way in ("__wrapped__", "__func__", "__self__", "func")]
    found += [cell.cell_contents for cell in getattr(held, "__closure__", None) or () if cell != CellType()]
    found += [value for base in type(held).__mro__ for value in vars(base).values() if isinstance(value, FunctionType)]
    return [*found, *getattr(held, "__dict__", {}).values()]


def _shared(function: Any, names: tuple[str, ...]) -> dict[str, Any]:
    """Return the values of the variables that a function shares with its enclosing function."""
    if function.__code__.co_freevars != names:
        raise TypeError(f"{function} is not the function that this plan was made for")
    cells = zip(names, function.__closure__ or (), strict=True)
    return {name: cell.cell_contents for name, cell in cells if name != "__class__"}


def _replace(original: Any, planned: Callable[..., Any]) -> None:
    """Make every holder of the function `original` (its class, a registry, another module) call `planned` from now on.

    Its decorators stay.
    """
    function = inspect.unwrap(getattr(original, "__func__", original))
    name = f"_planned_{planned.__name__}_{id(function):x}"
    function.__signature__ = inspect.signature(function)
    function.__globals__[name] = planned
    # Python only replaces code by code with the same number of free variables.
    shared = ", ".join(function.__code__.co_freevars)
    made: dict[str, Any] = {}
    exec(
        f"def around({shared}):\n"
        f"    def call(*args, **kwargs):\n"
        f"        if False: {shared or None}\n"
        f"        return {name}(*args, **kwargs)\n"
        f"    return call\n",
        made,
    )
    function.__code__ = made["around"](*function.__code__.co_freevars).__code__
