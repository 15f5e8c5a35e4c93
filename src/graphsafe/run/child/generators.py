"""Finds faults in the use of random generators by graphs, and captures that draw random numbers on the host.

There are three faults: the program replaces a registered generator, registers a generator while another device is
current, or sets the same seed before each replay. A graph draws from the device's default generator and from the
generators that were registered before its capture. A replay reads a generator's seed and offset and advances the
offset.
"""

from __future__ import annotations

import ast
import random
import re
import sys
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch

from graphsafe.capture.shared.classify import Function, contains
from graphsafe.capture.shared.frames import absolute, call_site, is_user_file, user_frames, user_frames_now
from graphsafe.report.model import CallSite
from graphsafe.report.source import file_lines
from graphsafe.run.child.frozen.origins import callee, running_in
from graphsafe.run.child.names import attributes_of, locals_of, weak_to
from graphsafe.run.child.source import (
    called_name,
    file_tree,
    function_of,
    innermost,
    is_seeding,
    outer_loop,
    tree_of_code,
)
from graphsafe.run.facts import Calls, GeneratorFacts, ReplacedGenerator, Seeding

_REGISTERED = "_graphsafe_registered"
"The attribute of a graph that lists its registered generators."
_ENOUGH = 8
"""If a graph draws the same numbers in this many replays in a row, graphsafe concludes that the program seeds the
generator before each replay."""
State = tuple[int, int]
"A generator's seed and offset."


@dataclass(frozen=True, slots=True)
class Registered:
    """A generator that was registered with a graph, and the attributes that held it. The graph keeps it alive too."""

    generator: torch._C.Generator
    holders: tuple[tuple[str, weakref.ref[Any], str], ...]
    """The attributes that held the generator. Each entry consists of the full name, the object, and the name of the
    object's attribute."""
    name: str
    calls: Calls = ()
    "The calls that registered the generator."
    is_elsewhere: bool = False
    "Whether another device was current when it was registered."


def register(graph: Any, generator: torch._C.Generator) -> None:
    """Record that the program has registered a generator with a graph, at the user's running line."""
    frames, calls = user_frames_now(sys._getframe(1)), user_frames()[0]
    known = graph.__dict__.setdefault(_REGISTERED, [])
    holders = tuple(_holders(generator, frames))
    variables = (name for frame in frames for name, value in locals_of(frame).items() if value is generator)
    name = [*(name for name, _, _ in holders), *variables, "a registered generator"][0]
    is_elsewhere = generator.device.index not in (None, torch.cuda.current_device())
    known.append(Registered(generator, holders, name, calls, is_elsewhere))


def _holders(generator: torch._C.Generator, frames: Sequence[FrameType]) -> Iterator[tuple[str, weakref.ref[Any], str]]:
    for frame in frames:
        for name, value in locals_of(frame).items():
            for attribute, one in list(attributes_of(value).items()):
                owner = weak_to(value) if one is generator else None
                if owner is not None:
                    yield f"{name}.{attribute}", owner, attribute


class Draws:
    """The random numbers that one graph draws."""

    def __init__(self) -> None:
        self._before: list[tuple[str, torch._C.Generator, State | None]] = []
        self._drawing: list[torch._C.Generator] = []
        "The generators whose offsets a replay has advanced."
        self.names: list[str] | None = None
        "The names of the generators in `_drawing`. It is None before the first replay."
        self._last: list[State | None] = []
        self._same = 0
        self._misplaced: Calls = ()
        self._replaced: ReplacedGenerator | None = None
        self._seeded: dict[Seeding, Calls] = {}

    def replaying(self, graph: Any, frames: Sequence[FrameType], calls: Calls) -> bool:
        """Check the generators before a replay, to which `calls` led. Return whether a new fault was found."""
        found = False
        registered: list[Registered] = graph.__dict__.get(_REGISTERED, [])
        if self.names is None:
            at = torch.cuda.current_device()
            generators = [("the device's default generator", one) for one in torch.cuda.default_generators[at : at + 1]]
            generators += [(one.name, one.generator) for one in registered]
            self._before = [(name, one, _state(one)) for name, one in generators]
            self._misplaced = next((one.calls for one in registered if one.is_elsewhere), ())
            found = bool(self._misplaced)
        if self._replaced is None and (other := self._other(registered)) is not None:
            text, owner, attribute, registering = other
            line = assigning_line(owner, attribute, registering)
            at_line = calls if line is None else (line,)
            self._replaced = ReplacedGenerator(text, at_line, is_line_known=line is not None)
            found = True
        states = list(map(_state, self._drawing))
        self._same = self._same + 1 if states and None not in states and states == self._last else 0
        self._last = states
        if self._same >= _ENOUGH and not self._seeded:
            line = _seeding_line(frames)
            self._seeded = {"unknown": calls} if line is None else {"repeated": (line,)}
            found = True
        return found

    def replayed(self) -> None:
        """Find the generators that the first replay has advanced."""
        moved = [
            (name, one) for name, one, state in self._before if state is not None and _state(one) not in (None, state)
        ]
        self._drawing, self.names = [one for _, one in moved], [name for name, _ in moved]
        self._before = []

    def facts(self, captured: CallSite | None) -> GeneratorFacts:
        """Return the facts for the ledger. `captured` is a line of the captured code that seeds a generator."""
        seeded = dict(self._seeded)
        if captured is not None and self._drawing:
            seeded["captured"] = (captured,)
        return GeneratorFacts(self._misplaced, self._replaced, seeded)

    def _other(self, registered: Sequence[Registered]) -> tuple[str, Any, str, Calls] | None:
        """Return the attribute that held a registered generator and now holds another one.

        The result consists of the attribute's text, object and name, and of the calls that registered the first
        generator.
        """
        for one in registered if self._drawing else ():
            for text, owner, attribute in one.holders:
                now = attributes_of(owner()).get(attribute)
                if not isinstance(now, torch._C.Generator) or any(now is other.generator for other in registered):
                    continue
                states = _state(now), _state(one.generator)
                if now.device == one.generator.device and None not in states and states[0] != states[1]:
                    return text, owner(), attribute, one.calls
        return None


def _state(generator: torch._C.Generator) -> State | None:
    """Return the seed and offset, or None if a failed capture has left the generator broken."""
    try:
        return generator.initial_seed(), generator.get_offset()
    except (RuntimeError, SystemError):  # SystemError: see gpu_trace.py
        return None


def _seeding_line(frames: Sequence[FrameType]) -> CallSite | None:
    """Return the line that seeds a generator between replays.

    The line is in a loop around the replay, in a function that is running in that loop, or in a function that the loop
    or such a function calls.
    """
    trees = [tree_of_code(one.f_code) for one in frames]
    loops = [outer_loop(tree, one.f_lineno) for tree, one in zip(trees, frames, strict=True)]
    for at, frame in enumerate(frames):
        repeated = loops[at] or (trees[at] if any(loops[at + 1 :]) else None)
        calls = [one for one in ast.walk(repeated) if isinstance(one, ast.Call)] if repeated is not None else []
        own = list(filter(is_seeding, calls))
        if own:
            before = [one.lineno for one in own if one.lineno < frame.f_lineno]
            return call_site(frame.f_code, max(before or [one.lineno for one in own]))
        scope = running_in(frame)
        for call in calls:
            known = callee(scope.origin(call.func).value)
            tree = None if known is None else function_of(known[0].__code__)
            inner = next(filter(is_seeding, ast.walk(tree)), None) if tree is not None else None
            if known is not None and isinstance(inner, ast.Call):
                code = known[0].__code__
                is_ours = is_user_file(code.co_filename)
                return call_site(code, inner.lineno) if is_ours else call_site(frame.f_code, call.lineno)
    return None


def assigning_line(owner: Any, attribute: str, done: Sequence[CallSite]) -> CallSite | None:
    """Return the only line that can have assigned an attribute of `owner` after the calls `done`.

    All files that the process has imported are searched. Return None if no line or more than one line is found.
    """
    word = re.compile(rf"\b{re.escape(attribute)}\b")
    files = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    own = {absolute(file) for file in files if isinstance(file, str) and file.endswith(".py") and is_user_file(file)}
    paths = [
        path for path in sorted(own | {one.path for one in done}) if word.search("\n".join(file_lines(path) or ()))
    ]
    classes = {kind.__name__ for kind in type(owner).__mro__}
    found = [line for path in paths for line in _lines(path, attribute, classes, done)]
    return found[0] if len(found) == 1 else None


def _lines(path: str, attribute: str, classes: set[str], done: Sequence[CallSite]) -> Iterator[CallSite]:
    for base, line in _assigned(file_tree(path), attribute):
        function = innermost(path, line, Function)
        around = innermost(path, line, ast.ClassDef)
        is_own = (
            function is not None
            and isinstance(base, ast.Name)
            and [base.id] == [one.arg for one in function.args.args[:1]]
        )
        is_other = is_own and around is not None and around.name not in classes
        if not is_other and not _is_before(path, line, function, is_own, done):
            yield CallSite(path, line, None if function is None else function.name)


def _assigned(tree: ast.Module, attribute: str) -> Iterator[tuple[ast.expr, int]]:
    """Yield each object on which a statement sets the attribute, and the line of the statement."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr == attribute and isinstance(node.ctx, ast.Store):
            yield node.value, node.lineno
        elif isinstance(node, ast.Call) and called_name(node.func) in ("setattr", "__setattr__"):
            names = [one.value for one in node.args if isinstance(one, ast.Constant)]
            if attribute in names:
                yield node.args[0], node.lineno


def _is_before(path: str, line: int, function: Any, is_own: bool, done: Sequence[CallSite]) -> bool:
    """Return whether a line ran before the calls `done`.

    A line ran before them if it is above one of the calls in the same function. A line of a constructor also ran before
    them, unless `done` contains a call in this constructor.
    """
    ran = [one.line for one in done if one.path == path and innermost(path, one.line, Function) is function]
    if not ran:
        return is_own and function.name == "__init__"
    loop: Any = outer_loop(function or file_tree(path), line)
    return line < max(ran) and not (loop is not None and contains(loop, max(ran)))


def drawn_so_far() -> tuple[Any, ...]:
    """Return the states of the host's global generators, of `random` and NumPy. They are different after a draw."""
    numpy: Any = sys.modules.get("numpy.random")
    state = None if numpy is None else numpy.get_state()
    return random.getstate(), None if state is None else (state[1].tobytes(), *state[2:])


def draws(function: Any) -> bool:
    """Return whether a function, such as `random.random` or `np.random.rand`, draws from these global generators."""
    numpy: Any = sys.modules.get("numpy.random")
    known = [random.random, *([] if numpy is None else [numpy.rand])]
    owner = getattr(function, "__self__", None)
    return any(owner is one.__self__ for one in known)
