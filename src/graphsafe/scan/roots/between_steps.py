"""Methods that may run between an object's replays: users call them, a thread runs them, or they loop over steps and
may be called again.

The lines of such methods run in no step and emit no events. But they may change state, and a graph does not see this
change.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from graphsafe.scan.roots.hot_roots import HotnessRules
from graphsafe.scan.symbols.index import ClassFacts, FileIndex, FunctionFacts
from graphsafe.scan.symbols.project import Project

_OWN_CALL = re.compile(r"\bself\.(\w+)\(")
_CONSTRUCTORS = "__init__", "__post_init__"
_TARGET = re.compile(r"\bThread\((?:.*\b)?target=self\.(\w+)")
"Matches the line that makes a thread for a method. The group is the method's name."
_CHANGES = re.compile(r"^\s+[\w.]+\.\w+ = |\.load_state_dict\(", re.M)


def changing_methods(project: Project, file: FileIndex, paths: HotnessRules) -> Iterator[tuple[str, str]]:
    """Yield the methods that change state and that a thread runs. Also yield the public methods that change state, for
    all classes that replay a graph. Each method comes with its class.

    Constructors and capturing methods are left out, and so are the methods that they call, because all of these run
    before the first replay.
    """
    lines = project.files.source(file.path).lines
    for cls in file.classes.values():
        texts = {
            name: "\n".join(lines[facts.line - 1 : facts.end_line])
            for name, qualified in cls.methods.items()
            if (facts := file.functions.get(qualified)) is not None
        }
        in_threads = {name for text in texts.values() for name in _TARGET.findall(text)}
        in_threads |= {"run"} & texts.keys() if any(base.endswith("Thread") for base in cls.bases) else set()
        replays = any(".replay()" in text for text in texts.values())
        preparing = _preparing(file, cls, texts)
        for name, text in texts.items():
            facts = file.functions[cls.methods[name]]
            is_public = replays and not name.startswith("_") and name not in preparing
            if not (is_public or name in in_threads) or ".replay()" in text or _CHANGES.search(text) is None:
                continue
            if not paths.is_cold(file.path, file.module, facts):
                yield f"{file.path}::{facts.name}", f"{file.path}::{cls.name}"


def has_threads(file: FileIndex) -> bool:
    return any(target.partition(".")[0] == "threading" for target in file.imports.values())


def comes_again(function: FunctionFacts | None) -> bool:
    """Return whether a function that loops over steps may be called again. This is assumed for methods, except
    constructors and capturing methods."""
    if function is None or function.captures:
        return False
    owner, _, name = function.name.rpartition(".")
    return bool(owner) and name not in _CONSTRUCTORS


def _preparing(file: FileIndex, cls: ClassFacts, texts: Mapping[str, str]) -> set[str]:
    begun = [name for name in texts if name in _CONSTRUCTORS or file.functions[cls.methods[name]].captures]
    found: set[str] = set()
    while begun:
        name = begun.pop()
        if name in texts and name not in found:
            found.add(name)
            begun += _OWN_CALL.findall(texts[name])
    return found
