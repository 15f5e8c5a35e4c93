"""Finds caches that may drop a tensor while a graph uses it, because some line empties the cache or because its size is
limited.
"""

from __future__ import annotations

import ast
import re
from collections import Counter

from graphsafe.scan.execution.frame import Engine, Frame
from graphsafe.scan.symbols.index import dotted, is_none

EMPTIED = re.compile(r"\b(\w+)\.(?:clear|pop|popitem|cache_clear)\(")
DELETED = re.compile(r"del (?<=\bdel )[\w.]*?(\w+)\[")
"Matches `del table[`. A pattern that begins with fixed characters is twenty times as fast."
REPLACED = re.compile(r"^[ \t]+(?:[\w.]*\.)?(\w+)(?::[^=\n]*)? = (?:\{\}|dict\(|OrderedDict\(|LRU)", re.M)
WEAK_NAME = re.compile("Weak")
WEAK = re.compile(r"\b(\w+)(?::[^=\n]*)? = (?:weakref\.)?Weak\w+\(")
EMPTYING = EMPTIED, DELETED, WEAK


def may_drop_entries(frame: Frame, table: str) -> bool:
    """Return whether the frame's file empties the table with the name `table`, or assigns a new table to this name more
    than once.

    Other classes may have attributes of the same name. So an attribute that only one method assigns does not count as
    assigned again. An attribute that only unrelated classes empty does not count as emptied.
    """
    path, name = frame.path, table.rpartition(".")[2]
    emptied, made_again = frame.engine.queries.ask(
        ("emptied", path), lambda: _emptied(frame.engine, path), lambda: (frozenset(), frozenset())
    )
    if name in emptied and not _is_emptied_elsewhere(frame, table):
        return True
    return name in made_again and not _has_one_writer(frame, table)


def _emptied(engine: Engine, path: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the names of the tables that a file empties, and the names to which it assigns a new table more than
    once."""
    search = engine.project.files.search
    patterns = EMPTYING if search(path, WEAK_NAME) else (EMPTIED, DELETED)
    found = {name for pattern in patterns for name in search(path, pattern)}
    made = Counter(search(path, REPLACED))
    return frozenset(found), frozenset(name for name, times in made.items() if times > 1)


def _is_emptied_elsewhere(frame: Frame, table: str) -> bool:
    """Return whether only unrelated classes empty their attribute of this name by `self.table.clear()`. A class is
    unrelated if it is neither a base nor a subclass of the frame's class, and shares no subclass with it in the
    file."""
    holder, _, name = table.rpartition(".")
    file = frame.project.files.index(frame.path)
    if holder != "self" or frame.owner is None or file is None:
        return False
    families = [set(frame.project.mro(ref)) for ref in (frame.owner, *(f"{frame.path}::{cls}" for cls in file.classes))]
    own = re.compile(rf"(?<![\w.])self\.{re.escape(name)}\b")
    for number, line in enumerate(frame.project.files.source(frame.path).lines, 1):
        if name not in line or not any(name in pattern.findall(line) for pattern in EMPTYING):
            continue
        classes = {one.owner for one in file.functions.values() if one.owner is not None and one.holds(number)}
        pairs = [{frame.owner, f"{frame.path}::{cls}"} for cls in classes]
        if not pairs or not own.search(line) or any(pair <= family for pair in pairs for family in families):
            return False
    return True


def _has_one_writer(frame: Frame, table: str) -> bool:
    """Return whether only one method of the frame's class assigns an attribute: `self.table`."""
    owner, _, name = table.rpartition(".")
    facts = frame.project.class_facts(frame.owner) if owner == "self" and frame.owner is not None else None
    return facts is not None and len(facts.writers.get(name, ())) == 1


def may_drop_results(engine: Engine, ref: str) -> bool:
    """Return whether the cache around a function has a limited size, or is emptied in the function's file."""
    node = engine.project.function_node(ref)
    for decorator in node.decorator_list if node is not None else ():
        name = dotted(decorator.func if isinstance(decorator, ast.Call) else decorator) or ""
        if name.endswith("lru_cache"):
            call = decorator if isinstance(decorator, ast.Call) else ast.Call(decorator, [], [])
            sizes = [*call.args[:1], *(keyword.value for keyword in call.keywords if keyword.arg == "maxsize")]
            if not (sizes and is_none(sizes[0])):
                return True
    path, _, qualified = ref.partition("::")
    return qualified.rpartition(".")[2] in engine.project.files.search(path, EMPTIED)
