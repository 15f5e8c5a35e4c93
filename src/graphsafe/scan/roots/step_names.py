"""The names of functions that take a step. They are found by a text search, before anything is parsed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from graphsafe.scan.domain.naming import MODEL
from graphsafe.scan.hazards.graph_syntax import MEASURES

_ONE_STEP = r"\.forward(?:_\w+)?|\.step|\.(?:decode|generate|predict|run)_(?:one_)?(?:step|frame|token)"
_OF_MODEL = rf"(?:\.decoder)?(?:{_ONE_STEP})?"
MODEL_CALL = re.compile(rf"(?:self\.)?_?(?:{MODEL}){_OF_MODEL}")
"""Matches a call of a model that makes one step, such as `model.forward_batch(…)` and `self._model.generate_frame(…)`.
A call of `model.generate(…)` makes all steps, and does not match."""
HELD_MODEL = re.compile(
    r"(?:self\.)?(?!(?:get|build|create|load|make|init|save|set|update|wrap|prepare|compile|train|eval|test|reset|setup|run)_)"
    rf"\w+_(?:{MODEL})"
)
"Matches a call of a model that is an attribute or a parameter, as in `self.noise_model(x)`, but not `load_model(x)`."
_RUNNERS = [kind + name for kind in ("", "model_", "draft_", "target_", "tp_") for name in ("runner", "worker")]
_OF_RUNNER = r"\.forward(?:_\w+)?"
RUNNER_CALL = re.compile(rf"(?:self\.)?_?(?:{'|'.join(_RUNNERS)}){_OF_RUNNER}")
"Matches the calls by which an engine runs its model: `self.model_runner.forward(batch)`."
ENGINE_STEPS = ("execute_model", "forward_batch_generation")
"Entry points of engines that make one step. The loop of a scheduler calls them."
_ENGINE = "|".join(ENGINE_STEPS).encode()
_HELD = "|".join(rf"_{name}\(" for name in MODEL.split("|")).encode()
_STEPS = re.compile(rb"\.(?:replay|backward|step|%s)\(|autograd\.grad\(|self\(|self\.forward\(|%s" % (_ENGINE, _HELD))
_RUNS = [*(name + _OF_MODEL for name in MODEL.split("|")), *(name + _OF_RUNNER for name in _RUNNERS)]
_MODEL = re.compile("|".join(rf"{one}\(" for one in _RUNS).encode())
"Matches calls of models and runners. A search is four times as fast if each alternative begins with a letter."
_BEFORE = re.compile(rb"(?<![\w.])(?:self\.)?_?\Z")
"""Matches the code that may stand directly before a model's name in a call: nothing, `_`, `self.` or `self._`.

This code is checked after the search, because a search that begins with fixed characters is three times as fast.
"""
_LONGEST = len("self._")
_IMPORT = re.compile(rb"^(?:from|import) .*", re.M)
_WHILE = re.compile(rb"while .*:\n")
"Matches a loop in which a module may call one of its parts until the result is complete."
_SURE = b".replay(", b".backward(", *(f".{name}(".encode() for name in ENGINE_STEPS)
_DEFINED = re.compile(rb"^[ \t]*(?:async )?(def|class) (\w+)|\.(?:replay|backward|%s)\(" % _ENGINE, re.M)
_DERIVED = re.compile(rb"^[ \t]*class (\w+)\(([^()=\n]+)\)", re.M)
_CALLED_BY_OTHERS = frozenset((b"forward", b"main", b"__init__", b"backward", b"build"))
"Names that prove nothing, because many functions of a project have them, or because loops do not call such functions."


@dataclass(frozen=True, slots=True)
class StepNames:
    """The names of functions that certainly take a step, as other files call them."""

    functions: frozenset[bytes] = frozenset()
    classes: frozenset[bytes] = frozenset()
    "Names of classes whose instances are called."
    modules: frozenset[bytes] = frozenset()
    "Names of the modules that define functions which certainly take a step."

    def may_begin_in(self, data: bytes) -> bool:
        """Return whether a script may make objects that take steps: it calls one of these functions, or it imports one
        of these modules."""
        return self.may_be_called_in(data) or any(
            not self.modules.isdisjoint(re.findall(rb"\w+", line)) for line in _IMPORT.findall(data)
        )

    def may_be_called_in(self, data: bytes) -> bool:
        return (bool(self.functions) and _calls_of(self.functions).search(data) is not None) or self.may_be_made_in(
            data
        )

    def may_be_made_in(self, data: bytes) -> bool:
        return any(name in data for name in self.classes)


@lru_cache
def _calls_of(methods: frozenset[bytes]) -> re.Pattern[bytes]:
    return re.compile(rb"\.(?:%s)\(" % b"|".join(sorted(methods)))


def may_take_step(data: bytes) -> bool:
    """Return whether a file may contain a call that takes a step."""
    return (
        _STEPS.search(data) is not None
        or (b" = self." in data and _WHILE.search(data) is not None)
        or any(_BEFORE.search(data, max(0, match.start() - _LONGEST), match.start()) for match in _MODEL.finditer(data))
    )


def takes_surely(data: bytes) -> bool:
    """Return whether a file contains a replay, a backward pass or the step of an engine."""
    return any(word in data for word in _SURE)


def step_names(sources: Mapping[str, bytes]) -> StepNames:
    """Return the names of the functions that replay, train or call an engine's step, or that call such a function of
    their file. A text search finds them in the files that contain such calls, given by their paths."""
    functions: set[bytes] = set()
    classes: set[bytes] = set()
    derived: dict[bytes, set[bytes]] = {}
    for data in sources.values():
        for match in _DERIVED.finditer(data):
            for base in match[2].split(b","):
                derived.setdefault(base.rpartition(b".")[2].strip(), set()).add(match[1])
        found = _taking(data)
        classes.update(owner for owner, name in found if name == b"__call__" and owner)
        functions.update(name for _, name in found if name != b"__call__")
    waiting = [*classes]
    while waiting:
        further = derived.get(waiting.pop(), set()) - classes
        classes |= further
        waiting += further
    named = {name for name in functions - _CALLED_BY_OTHERS if not MEASURES.search(name.decode())}
    modules = {Path(path).stem.encode() for path in sources} - {b"__init__"}
    return StepNames(frozenset(named), frozenset(classes), frozenset(modules))


def _taking(data: bytes) -> set[tuple[bytes, bytes]]:
    """Return the functions of a file that take a step, each as its class and its name. The class is the nearest one
    above the function in the text."""
    found: set[tuple[bytes, bytes]] = set()
    pattern = _DEFINED
    while True:
        before = len(found)
        owner = name = b""
        for match in pattern.finditer(data):
            if match[1] == b"class":
                owner, name = match[2], b""
            elif match[1] == b"def":
                name = match[2]
            elif name:
                found.add((owner, name))
        if len(found) == before:
            return found
        names = b"|".join(sorted({name for _, name in found if name != b"__call__"}) or [b"replay"])
        pattern = re.compile(rb"%s|[.\s(](?:%s)\(" % (_DEFINED.pattern, names), re.M)
