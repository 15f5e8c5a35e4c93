"""Loops around steps: the functions that replay a graph or train once per iteration, whatever their names.

A call tells whether it takes a step (step_takers.py). A loop with such a call runs in every step. So does a method that
replays or trains by itself, since some loop elsewhere calls it. Other lines of a function around a loop run once.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from graphsafe.scan.domain.values import Instance, Value
from graphsafe.scan.hazards.replay_site import MEASURES
from graphsafe.scan.roots.hot_roots import HotnessRules
from graphsafe.scan.roots.step_takers import SEED, StepNames, StepTakers, is_short, takes_surely
from graphsafe.scan.symbols.index import FileIndex, FunctionFacts

Loops = tuple[int, ...]
"The first lines of the loops that run in every step; none if the whole function does."

_LOOP = re.compile(rb"^\s*(?:async )?(?:while|for) ", re.M)
_BESIDE_STEPS = re.compile(
    r"(?<![^\W_])(eval\w*|valid\w*|score|predict|metrics?|calibrat\w*|export|convert|demo)(?![^\W_])"
)
"Words in the names of functions that run a model beside the steps."
_SCRIPT = re.compile(r"^(?:if|for|while|with|try)\b.*:$", re.M)
"Statements that begin or enclose a module's own loop."


def may_hold_loop(data: bytes, names: StepNames) -> bool:
    """Return whether a file's text may hold such a loop or step."""
    if takes_surely(data):
        return True
    return _LOOP.search(data) is not None and (SEED.search(data) is not None or names.may_be_called_in(data))


def loop_roots_of(
    takers: StepTakers, file: FileIndex, paths: HotnessRules
) -> Iterator[tuple[str, Value | None, Loops]]:
    """Yield function, receiver and loops of each; the function is `path::` for loops of the module itself."""
    data = takers.engine.project.files.data(file.path) or b""
    if not may_hold_loop(data, takers.names):
        return
    module = file.module.rpartition(".")[2]
    found = _File(takers, file)
    for name, loops in found.loops():
        facts = file.functions.get(name)
        if any(_is_beside_steps(text, found.replays(name)) for text in (module, name)):
            continue
        if facts is None:
            yield f"{file.path}::", None, loops
        elif not paths.is_cold(file.path, file.module, facts):
            receiver = Instance(f"{file.path}::{facts.owner}", declared=True) if facts.owner is not None else None
            yield f"{file.path}::{name}", receiver, loops


def _is_beside_steps(name: str, replays: bool = False) -> bool:
    """Return whether a name says that a function runs a model beside the steps; nobody captures a graph for that."""
    return MEASURES.search(name) is not None or (not replays and _BESIDE_STEPS.search(name) is not None)


class _File:
    """The loops of one file."""

    def __init__(self, takers: StepTakers, file: FileIndex) -> None:
        self._takers = takers.of(file)
        self._file = file
        self._text = takers.engine.project.source(file.path).text

    def loops(self) -> Iterator[tuple[str, Loops]]:
        """Yield the functions that run in every step, each with its loops, and the module (an empty name) with its
        own."""
        for name, facts in self._file.functions.items():
            if not self._takers.is_read(name):
                continue
            loops = self._loops_in(name, facts)
            strength = self._takers.takes.get(name)
            if loops and not self._steps_outside_loops(name):
                yield name, loops
            elif strength in ("replays", "trains") and not facts.captures and self._may_be_called_in_loop(name):
                yield name, ()
        if _SCRIPT.search(self._text) is not None:
            loops = self._loops_in("", None)
            if loops:
                yield "", loops

    def replays(self, name: str) -> bool:
        """Return whether a function, or a loop of it, replays a graph."""
        return self._takers.takes.get(name) == "replays" or any(
            strength == "replays" for _, strength, _ in self._takers.steps_in(name)
        )

    def _may_be_called_in_loop(self, name: str) -> bool:
        """Return whether a loop may call it: a method, or a function with arguments; a script's `main` runs once."""
        node = self._takers.node(name)
        return self._file.functions[name].owner is not None or (
            isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and len(node.args.args) > 1
        )

    def _loops_in(self, name: str, facts: FunctionFacts | None) -> Loops:
        """Return the first lines of the innermost loops around calls that take a step."""
        captures = self._file.captures if facts is None else facts.captures
        # Code that captures warms up first.
        around = (loop for _, strength, loop in self._takers.steps_in(name) if strength == "replays" or not captures)
        return tuple(sorted({loop.lineno for loop in around if loop is not None and not is_short(loop)}))

    def _steps_outside_loops(self, name: str) -> bool:
        """Return whether a method replays or updates the weights outside of its loops, so that all of it is a step."""
        if self._file.functions[name].captures or not self._may_be_called_in_loop(name):
            return False
        return any(
            loop is None and strength in ("replays", "trains") for _, strength, loop in self._takers.steps_in(name)
        )
