"""The names of functions that take a step, as far as the text of their files shows them before anything is parsed."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from graphsafe.scan.domain.naming import MODEL
from graphsafe.scan.hazards.graph_syntax import MEASURES

MODEL_CALL = (
    rf"(?:self\.)?_?(?:{MODEL})(?:\.forward(?:_\w+)?|\.(?:decode|generate|predict|run)_(?:one_)?(?:step|frame|token))?"
)
"""A call of a model that makes one step: `model.forward_batch(…)` and `self._model.generate_frame(…)` do, a call of
`model.generate(…)` makes all steps."""
SEED = re.compile(rb"\.replay\(|\.backward\(|\.step\(|(?<![\w.])%s\(" % MODEL_CALL.encode())
"Matches the text of a function that takes a step by itself."
_SURE = b".replay(", b".backward("
_ENDS = (b"_step(", b"_frame(", b"_token(")
_PERHAPS = (b".step(", b".forward", *_ENDS, *(f"{name}(".encode() for name in MODEL.split("|")))
"""Every other text that `SEED` matches contains one of these texts.

A search for each text is many times as fast as the pattern.
"""
_DEFINED = re.compile(rb"^[ \t]*(?:async )?(def|class) (\w+)|\.replay\(|\.backward\(", re.M)
_DERIVED = re.compile(rb"^[ \t]*class (\w+)\(([^()=\n]+)\)", re.M)
_CALLED_BY_OTHERS = frozenset((b"forward", b"main", b"__init__", b"backward", b"build"))
"Names that prove nothing: many functions of each project have them, or they are not called in loops."


@dataclass(frozen=True, slots=True)
class StepNames:
    """The names, as other files use them, of functions that surely take a step."""

    functions: frozenset[bytes] = frozenset()
    classes: frozenset[bytes] = frozenset()
    "Names of classes whose instances are called."

    def may_be_called_in(self, data: bytes) -> bool:
        return any(b"." + name + b"(" in data for name in self.functions) or self.may_be_made_in(data)

    def may_be_made_in(self, data: bytes) -> bool:
        return any(name in data for name in self.classes)


def may_take_step(data: bytes) -> bool:
    """Return whether a text may hold a call that takes a step."""
    return takes_surely(data) or (any(text in data for text in _PERHAPS) and SEED.search(data) is not None)


def takes_surely(data: bytes) -> bool:
    """Return whether a text holds a replay or a backward pass."""
    return any(word in data for word in _SURE)


def step_names(texts: Iterable[bytes]) -> StepNames:
    """Return the functions that, judged by their text alone, replay or train, or call a function of their file that
    does."""
    functions: set[bytes] = set()
    classes: set[bytes] = set()
    derived: dict[bytes, set[bytes]] = {}
    for data in texts:
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
    return StepNames(frozenset(named), frozenset(classes))


def _taking(data: bytes) -> set[tuple[bytes, bytes]]:
    """Return class and name of the functions of a text that take a step; the class is the nearest one above the
    function."""
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
