"""What is filled once: where something is missing, the first step makes it, and later ones find it there."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from graphsafe.scan.checks import first_step
from graphsafe.scan.checks.provenance import CONSTRUCTORS, bound_to, identified_by
from graphsafe.scan.domain.values import Instance, RuntimeObject, as_tensor, depends_on_step
from graphsafe.scan.sources.node_memo import memoize_on_node
from graphsafe.scan.symbols.index import dotted, statements_within

if TYPE_CHECKING:
    from graphsafe.scan.interpreter.call_frame import Frame, LazyTest
    from graphsafe.scan.interpreter.engine import Engine


def first_step_only(frame: Frame) -> bool:
    """Whether the current line runs where something is missing that it makes."""
    return any(
        "." in target or target in frame.globals or target not in frame.env
        for target in map(partial(_missing, frame), frame.lazy)
        if " " not in target
    )


def _missing(frame: Frame, test: LazyTest) -> str:
    """What a test finds missing: `self.plan` also where it asks for `plan`, after `plan = self.plan`.

    Of an entry, after `plan = self.plans.get(key)`, the table.
    """
    if not test.target.isidentifier():
        return test.target
    bound = bound_to(frame, test)
    if bound is None:
        return test.target
    if isinstance(bound, ast.Attribute):
        return dotted(bound) or test.target
    return first_step.attribute_asked(bound) or first_step.table_of(bound) or test.target


def is_filled_here(engine: Engine, frame: Frame) -> bool:
    """Whether the current line runs only where an attribute is missing, or not ready, that is then filled."""
    return any(test.alone and _is_filled(engine, frame, test) for test in frame.lazy)


def _is_filled(engine: Engine, frame: Frame, test: LazyTest) -> bool:
    if _fills_table(engine, frame, test):
        return True
    missing = _missing(frame, test)
    if missing in frame.globals:
        return _is_filled_global(engine, frame, test, missing)
    if missing != "*" and not missing.startswith("self."):
        return _is_filled_in_module(engine, frame, test, missing)
    if frame.node is None:
        return False
    asked, assigned, called = _follows(frame.node, test.line)
    wanted = {text for text in asked if first_step.READY_FLAG.search(text)} if missing == "*" else {missing}
    here = {*called, frame.function.rpartition(".")[2], *CONSTRUCTORS}
    for target in wanted:
        name = _read_by_property(engine, frame, target.removeprefix("self."))
        writers = _writers(engine, frame, name)
        once = writers <= here or _is_advanced(engine, frame, name, writers)
        if once and (not {target, f"self.{name}"}.isdisjoint(assigned) or not writers.isdisjoint(called)):
            return True
    return False


def _read_by_property(engine: Engine, frame: Frame, name: str) -> str:
    """`_turn` for the property `turn` that does nothing but return `self._turn`."""
    method = engine.project.find_method(frame.owner, name) if frame.owner is not None else None
    node = engine.project.function_node(method) if method is not None else None
    last = node.body[-1] if node is not None and "property" in map(dotted, node.decorator_list) else None
    kept = dotted(last.value) if isinstance(last, ast.Return) and last.value is not None else None
    return kept.removeprefix("self.") if kept is not None and kept.startswith("self.") else name


def _is_advanced(engine: Engine, frame: Frame, name: str, writers: set[str]) -> bool:
    """Whether an attribute is a position that steps advance: `self._turn += 1`.

    The first step of a row works out where it begins. Whoever starts another row sets it to None.
    """
    methods = (engine.project.find_method(frame.owner, writer) for writer in sorted(writers)) if frame.owner else ()
    nodes = filter(None, (engine.project.function_node(method) for method in methods if method is not None))
    return any(
        isinstance(inner, ast.AugAssign) and isinstance(inner.op, ast.Add) and dotted(inner.target) == f"self.{name}"
        for node in nodes
        for inner in statements_within(node)
    )


def _is_filled_global(engine: Engine, frame: Frame, test: LazyTest, name: str) -> bool:
    """`global plan; if plan is not None: return plan; plan = …`, where the rest of the file at most drops it again."""
    if frame.node is None:
        return False
    stores = [n for n in ast.walk(frame.node) if isinstance(n, ast.Name) and n.id == name and _is_stored(n)]
    put = re.compile(rf"^[ \t]+(?:\w+ = )*{name} = (?:\w+ = )*(?!None\b|\w+ = )", re.M)
    return any(store.lineno > test.line for store in stores) and (
        len(engine.project.files.search(frame.path, put)) <= len(stores)
    )


def _is_filled_in_module(engine: Engine, frame: Frame, test: LazyTest, missing: str) -> bool:
    """`layer.scale` behind `if layer.scale is None: layer.scale = …`, where nothing else in the file assigns it."""
    owner, _, name = missing.rpartition(".")
    holder = frame.env.get(owner)
    is_module = (type(holder) is RuntimeObject and holder.kind == "module") or (
        type(holder) is Instance and engine.attributes.is_module(holder.ref)
    )
    if not is_module or frame.node is None or missing not in _follows(frame.node, test.line)[1]:
        return False
    here = sum(isinstance(n, ast.Attribute) and n.attr == name and _is_stored(n) for n in ast.walk(frame.node))
    return len(engine.project.files.search(frame.path, re.compile(rf"\.{name}\b\s*[-+*/]?=(?!=)"))) == here


def _is_stored(node: ast.Attribute | ast.Name) -> bool:
    return isinstance(node.ctx, ast.Store)


def turned_off(engine: Engine, frame: Frame, test: ast.If) -> str | None:
    """The flag of this object that a step asks and turns off, and that is on before the first step only."""
    flag = first_step.turned_off(test)
    if flag is None or not flag.startswith("self."):
        return None
    here = {frame.function.rpartition(".")[2], *CONSTRUCTORS}
    return flag if _writers(engine, frame, flag.removeprefix("self.")) <= here else None


def _fills_table(engine: Engine, frame: Frame, test: LazyTest) -> bool:
    """`plan = tables.plans.get(key); if plan is None: …; tables.plans[key] = plan`, or the same by `not in`."""
    if frame.node is None:
        return False
    bound = bound_to(frame, test) if "." not in test.target else None
    table = test.target if bound is None else first_step.table_of(bound)
    if table is None or ("." not in table and table in frame.env and table not in frame.globals):
        return False
    keys = [key for held, line, key in _entries(frame.node) if held == table and line > test.line]
    return bool(keys) and not any(_is_of_a_step(engine, frame, key) for key in keys)


def _is_of_a_step(engine: Engine, frame: Frame, key: ast.expr) -> bool:
    """Whether a key stands for an object that each step may make anew: `id(x)`, unless no step makes `x`."""
    for identified in identified_by(frame, key):
        root = (dotted(identified) or "").partition(".")[0]
        value = engine.evaluate_quietly(frame, identified) if root in frame.env else None
        if value is None or as_tensor(value)[0] is not None or depends_on_step(value):
            return True
    return False


def is_own_entry(frame: Frame, node: ast.expr) -> bool:
    """`self.tables[key]` in a function that fills this table: the entry is one of those that it made."""
    if frame.node is None:
        return False
    table = first_step.table_of(node)
    return table is not None and any(filled == table for filled, _, _ in _entries(frame.node))


@memoize_on_node
def _entries(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Sequence[tuple[str, int, ast.expr]]:
    """The entries that a function puts into tables and sets: table, line, key."""
    found = []
    for inner in statements_within(function):
        for target in inner.targets if isinstance(inner, ast.Assign) else ():
            if isinstance(target, ast.Subscript) and (table := dotted(target.value)) is not None:
                found.append((table, target.lineno, target.slice))
        call = inner.value if isinstance(inner, ast.Expr) else None
        if (
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Attribute)
            and call.func.attr == "add"
            and call.args
        ):
            found.append((dotted(call.func.value) or "", call.lineno, call.args[0]))
    return found


def _writers(engine: Engine, frame: Frame, attribute: str) -> set[str]:
    """The methods that assign an attribute of the frame's own class, those that reset it included."""
    if frame.owner is None:
        return set()
    known = (engine.project.class_facts(base) for base in engine.project.mro(frame.owner) if "::" in base)
    return {method for facts in known if facts is not None for method in facts.writers.get(attribute, ())}


@memoize_on_node
def _follows(function: ast.AST, line: int) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    """What the `if` on a line asks for, what its branches assign, and the methods that they call on `self`.

    Where its own branch leaves the function, what comes after it is the other one.
    """
    test = next((node for node in ast.walk(function) if isinstance(node, ast.If) and node.lineno == line), None)
    if test is None:
        return frozenset(), frozenset(), frozenset()
    asked = {dotted(node) or "" for node in ast.walk(test.test) if isinstance(node, ast.Attribute)}
    leaves = isinstance(test.body[-1], ast.Return)
    within = [node for node in ast.walk(function if leaves else test) if getattr(node, "lineno", 0) >= line]
    assigned = {dotted(n) or "" for n in within if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store)}
    called: set[str] = set()
    for node in within:
        if isinstance(node, ast.Call):
            owner, _, name = (dotted(node.func) or "").rpartition(".")
            if name in ("register_buffer", "setattr") and (key := _constant_key(node)) is not None:
                assigned.add(f"self.{key}")
            elif owner == "self":
                called.add(name)
            elif name.endswith("_"):
                # `self.ready.data.fill_(True)`: a flag that is a buffer.
                assigned.add(owner.removesuffix(".data"))
    return frozenset(asked), frozenset(assigned), frozenset(called)


def _constant_key(call: ast.Call) -> str | None:
    """The name in `self.register_buffer("name", …)` and `setattr(self, "name", …)`."""
    names = [argument.value for argument in call.args[:2] if isinstance(argument, ast.Constant)]
    return next((name for name in names if isinstance(name, str)), None)


__all__ = ["first_step_only", "is_filled_here", "is_own_entry", "turned_off"]
