"""Where a value comes from that is assigned to state, as far as its function shows."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from graphsafe.scan.checks import first_step
from graphsafe.scan.domain.summary import StepInput
from graphsafe.scan.domain.values import Instance, RuntimeObject, as_tensor
from graphsafe.scan.sources.node_memo import memoize_on_node
from graphsafe.scan.symbols.index import dotted, statements_within

if TYPE_CHECKING:
    from graphsafe.scan.interpreter.call_frame import Frame, LazyTest
    from graphsafe.scan.interpreter.engine import Engine

CAPACITY = "capacity of "
CONSTRUCTORS = ("__init__", "__post_init__", "__new__", "setup")
FORM = frozenset("shape device dtype ndim size numel dim stride".split())


def bound_expression(frame: Frame, node: object) -> ast.expr | None:
    """The expression behind a value: for a local name, what it was last assigned."""
    if not isinstance(node, ast.expr):
        return None
    if not isinstance(node, ast.Name) or frame.node is None:
        return node
    assigned = _assignments(frame.node).get(node.id)
    if assigned is None:
        return node
    bound = [inner for inner in assigned if inner.lineno < node.lineno]
    return max(bound, key=lambda inner: inner.lineno).value if bound else node


@memoize_on_node
def _assignments(
    function: ast.FunctionDef | ast.AsyncFunctionDef,
) -> Mapping[str, Sequence[ast.Assign | ast.AnnAssign]]:
    """The assignments to each local name."""
    found: dict[str, list[ast.Assign | ast.AnnAssign]] = {}
    for inner in statements_within(function):
        targets = inner.targets if isinstance(inner, ast.Assign) else []
        if isinstance(inner, ast.AnnAssign) and inner.value is not None:
            targets = [inner.target]
        for target in targets:
            if isinstance(target, ast.Name):
                found.setdefault(target.id, []).append(inner)  # type: ignore[arg-type]
    return found


def identifies_object(frame: Frame, key: ast.expr) -> bool:
    """`id(weight)`, `(weight.data_ptr(), weight.dtype)`: a key that stands for one object, not for its value."""
    made = bound_expression(frame, key)
    return made is not None and any(
        isinstance(inner, ast.Call) and (dotted(inner.func) or "").rpartition(".")[2] in ("id", "data_ptr")
        for inner in ast.walk(made)
    )


def is_born_here(frame: Frame, text: str) -> bool:
    """`output.value` where `output` is what a call of this function has just returned: no state, but a result."""
    root = text.partition(".")[0]
    if root not in frame.env or frame.node is None:
        return False
    name = ast.Name(root, ast.Load())
    name.lineno = frame.node.end_lineno or frame.node.lineno
    return isinstance(bound_expression(frame, name), ast.Call)


def is_lazy(frame: Frame, text: str, item: ast.expr | None) -> bool:
    """Whether a write stands under a test that what it writes is missing.

    `item` is what is put into a container: `if table is None: table = make(); self.tables[n] = table` is lazy as well.
    """
    base = text.partition("[")[0]
    owner, _, name = base.rpartition(".")
    for test in frame.lazy:
        if test.target in (text, base, "*") or base.startswith(f"{test.target}."):
            return True
        if "." in test.target:
            continue
        if isinstance(item, ast.Name) and test.target == item.id:
            return True
        bound = _bound_to(frame, test)
        if owner and bound is not None and name in ast.unparse(bound):
            return True
    return False


def is_made_along(frame: Frame, text: str) -> bool:
    """Whether a write stands under a test that another attribute of the same object is missing."""
    owner = text.partition("[")[0].rpartition(".")[0]
    return bool(owner) and any(
        test.target.rpartition(".")[0] == owner
        or ("." not in test.target and (bound := _bound_to(frame, test)) is not None and _looked_up(bound, owner))
        for test in frame.lazy
    )


def _bound_to(frame: Frame, test: LazyTest) -> ast.expr | None:
    """What a local name that is tested was bound to: `ready = hasattr(self, "table") and …`."""
    name = ast.Name(test.target, ast.Load())
    name.lineno = test.line
    bound = bound_expression(frame, name)
    return None if bound is name else bound


def _looked_up(node: ast.expr, owner: str) -> bool:
    """`self.tables[key]` and `self.tables.get(key)`, for the owner `self`."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
        node = node.func.value
    elif isinstance(node, ast.Subscript):
        node = node.value
    return isinstance(node, ast.Attribute) and ast.unparse(node.value) == owner


@memoize_on_node
def has_alternative(test: ast.expr) -> bool:
    """`self.plan is None or self.size != n`: what is missing is made anew for another reason as well."""
    return any(
        isinstance(part.op, ast.Or)
        and not all(first_step.lazy_tests(one, True) or _asks_place(one) for one in part.values)
        for part in _choices(test)
    )


def _choices(test: ast.expr) -> Iterator[ast.BoolOp]:
    if isinstance(test, ast.UnaryOp):
        yield from _choices(test.operand)
    elif isinstance(test, ast.BoolOp):
        yield test
        for value in test.values:
            yield from _choices(value)


def _asks_place(test: ast.expr) -> bool:
    """`self.table.device != x.device`: holds in the first step only, since all steps run on one device."""
    return (
        isinstance(test, ast.Compare)
        and isinstance(test.ops[0], (ast.NotEq, ast.IsNot))
        and any(isinstance(side, ast.Attribute) and side.attr in ("device", "dtype") for side in ast.walk(test))
    )


@memoize_on_node
def capacity_tests(test: ast.expr) -> tuple[str, ...]:
    """Attributes that a condition compares, as code does before it makes something in another size."""
    return tuple(
        f"{CAPACITY}{text}"
        for part in (test.values if isinstance(test, ast.BoolOp) else [test])
        if isinstance(part, ast.Compare)
        for side in (part.left, *part.comparators)
        if isinstance(side, (ast.Attribute, ast.Subscript)) and "." in (text := dotted(side) or "")
    )


def is_rare(frame: Frame) -> bool:
    """Whether the current line stands behind such a condition: most steps do not come here."""
    return any(test.target.startswith(CAPACITY) for test in frame.lazy)


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
    bound = _bound_to(frame, test)
    if bound is None:
        return test.target
    if isinstance(bound, ast.Attribute):
        return dotted(bound) or test.target
    return first_step.attribute_asked(bound) or first_step.table_of(bound) or test.target


def is_filled_here(engine: Engine, frame: Frame) -> bool:
    """Whether the current line runs only where an attribute is missing, or not ready, that is then filled."""
    return any(test.alone and _is_filled(engine, frame, test) for test in frame.lazy)


def _is_filled(engine: Engine, frame: Frame, test: LazyTest) -> bool:
    if _fills_table(frame, test):
        return True
    missing = _missing(frame, test)
    if missing != "*" and not missing.startswith("self."):
        return _is_filled_in_module(engine, frame, test, missing)
    if frame.node is None:
        return False
    asked, assigned, called = _follows(frame.node, test.line)
    wanted = {text for text in asked if first_step.READY_FLAG.search(text)} if missing == "*" else {missing}
    here = {*called, frame.function.rpartition(".")[2], *CONSTRUCTORS}
    for target in wanted:
        writers = _writers(engine, frame, target.removeprefix("self."))
        if writers <= here and (target in assigned or not writers.isdisjoint(called)):
            return True
    return False


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


def _is_stored(node: ast.Attribute) -> bool:
    return isinstance(node.ctx, ast.Store)


def turned_off(engine: Engine, frame: Frame, test: ast.If) -> str | None:
    """The flag of this object that a step asks and turns off, and that is on before the first step only."""
    flag = first_step.turned_off(test)
    if flag is None or not flag.startswith("self."):
        return None
    here = {frame.function.rpartition(".")[2], *CONSTRUCTORS}
    return flag if _writers(engine, frame, flag.removeprefix("self.")) <= here else None


def _fills_table(frame: Frame, test: LazyTest) -> bool:
    """`plan = tables.plans.get(key); if plan is None: …; tables.plans[key] = plan`, or the same by `not in`."""
    if frame.node is None:
        return False
    bound = _bound_to(frame, test) if "." not in test.target else None
    table = test.target if bound is None else first_step.table_of(bound)
    if table is None or ("." not in table and table in frame.env and table not in frame.globals):
        return False
    keys = [key for held, line, key in _entries(frame.node) if held == table and line > test.line]
    return bool(keys) and not any(identifies_object(frame, key) for key in keys)


def is_own_entry(frame: Frame, node: ast.expr) -> bool:
    """`self.tables[key]` in a function that fills this table: the entry is one of those that it made."""
    if frame.node is None:
        return False
    table = first_step.table_of(node)
    return table is not None and any(filled == table for filled, _, _ in _entries(frame.node))


@memoize_on_node
def _entries(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Sequence[tuple[str, int, ast.expr]]:
    """The entries that a function puts into tables: table, line, key."""
    return tuple(
        (table, target.lineno, target.slice)
        for inner in statements_within(function)
        if isinstance(inner, ast.Assign)
        for target in inner.targets
        if isinstance(target, ast.Subscript) and (table := dotted(target.value)) is not None
    )


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


def sources(engine: Engine, frame: Frame, node: ast.expr | None) -> frozenset[str]:
    """The attributes whose tensors an expression reads."""

    found = set()
    for inner in _read_for_values(node) if node is not None else ():
        if isinstance(inner, (ast.Name, ast.Attribute)) and isinstance(inner.ctx, ast.Load):
            tensor, _ = as_tensor(engine.evaluate_quietly(frame, inner))
            if tensor is not None and tensor.attr is not None:
                found.add(tensor.attr)
    if found and frame.depth == 0 and frame.node is not None and _takes_nothing(frame.node):
        # Such a step gets its inputs through the attributes that it reads.
        for attribute in sorted(found):
            engine.note(StepInput(attribute))
    return frozenset(found)


def _read_for_values(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of an expression, without tensors of which only the form is read: `x` in `x.shape[0]`."""
    if isinstance(node, ast.Attribute) and node.attr in FORM:
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _read_for_values(child)


def _takes_nothing(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    given = function.args
    return len(given.posonlyargs) + len(given.args) <= 1 and not (given.vararg or given.kwarg or given.kwonlyargs)


__all__ = [
    "bound_expression",
    "capacity_tests",
    "first_step_only",
    "has_alternative",
    "is_born_here",
    "is_filled_here",
    "is_lazy",
    "is_made_along",
    "is_rare",
    "sources",
    "turned_off",
]
