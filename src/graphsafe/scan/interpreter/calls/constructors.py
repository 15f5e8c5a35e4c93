"""Calls of classes: what an object is made of, and what its constructor does where a step makes the object."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from graphsafe.scan.domain.arguments import Arguments, Call
from graphsafe.scan.domain.record import Edge
from graphsafe.scan.domain.summary import CallEdge
from graphsafe.scan.domain.values import ClassValue, Instance, Number, Tensor, Value, depends_on_step
from graphsafe.scan.sources.node_memo import memoize_on_node

if TYPE_CHECKING:
    from graphsafe.scan.interpreter.call_frame import Frame
    from graphsafe.scan.interpreter.engine import Engine

_RECORDS = ("NamedTuple", "TypedDict", "dict", "OrderedDict", "UserDict")


def construct(engine: Engine, frame: Frame, node: ast.AST, cls: ClassValue, arguments: Arguments) -> Value:
    """The object that a call of a class of the project makes."""
    variable = engine.variables.made(cls, arguments)
    if variable is not None:
        return variable
    bases = engine.project.mro(cls.ref)
    if any(base.startswith("enum.") for base in bases):
        return Number()
    # What a first step makes, the others keep.
    made = Instance(cls.ref, any(map(depends_on_step, arguments.values())), made=frame.hot and not frame.lazy)
    if any(base.rpartition(".")[2] in _RECORDS for base in bases):
        return made
    if arguments.keywords and engine.attributes.has_plain_fields(cls.ref):
        engine.attributes.constructed(cls.ref, arguments.keywords)
    method = engine.project.find_method(cls.ref, "__init__")
    if method is not None:
        _note_passed(engine, cls.ref, method, arguments)
        if frame.hot:
            _run(engine, frame, node, method, made, arguments)
    return made


def _run(engine: Engine, frame: Frame, node: ast.AST, method: str, made: Instance, arguments: Arguments) -> None:
    """The constructor of an object that a step makes runs in the step. What it binds is of the new object alone."""
    body = engine.project.function_node(method)
    if body is None or not _works(body) or not engine.budget.holds(method):
        return
    edge = Edge(frame.ref, getattr(node, "lineno", 1), frame.guard is not None, frame.compile_test)
    engine.note_once(CallEdge(method, edge))
    guarded = frame.guard is not None or bool(frame.unlikely)
    call = Call(method, Instance(made.ref, True), arguments, hot=True, depth=1, level=frame.level)
    engine.read(call, guarded)


def _note_passed(engine: Engine, ref: str, method: str, arguments: Arguments) -> None:
    """Note the tensors that a constructor is given and puts into attributes as they are."""
    node = engine.project.function_node(method) if any(_is_tensor(value) for value in arguments.values()) else None
    if node is None or arguments.open:
        return
    names = [parameter.arg for parameter in (*node.args.posonlyargs, *node.args.args)][1:]
    passed = {**dict(zip(names, arguments.positional, strict=False)), **arguments.keywords}
    kept = {attribute: passed[name] for attribute, name in _kept(node).items() if name in passed}
    engine.attributes.passed(ref, {attribute: value for attribute, value in kept.items() if _is_tensor(value)})


def _is_tensor(value: Value) -> bool:
    return type(value) is Tensor


@memoize_on_node
def _works(constructor: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether it calls anything but Python's builtins."""
    calls = (inner.func for inner in ast.walk(constructor) if isinstance(inner, ast.Call))
    return any(not (isinstance(function, ast.Name) and hasattr(builtins, function.id)) for function in calls)


@memoize_on_node
def _kept(constructor: ast.FunctionDef | ast.AsyncFunctionDef) -> Mapping[str, str]:
    """Attribute -> the parameter that it is set to, where nothing is done with that before."""
    return dict(_plain_assignments(constructor))


def _plain_assignments(constructor: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[tuple[str, str]]:
    receiver = constructor.args.args[0].arg if constructor.args.args else ""
    for statement in constructor.body:
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            continue
        target, value = statement.targets[0], statement.value
        pairs = [(target, value)]
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
            pairs = [*zip(target.elts, value.elts, strict=True)]
        for to, what in pairs:
            owner = to.value if isinstance(to, ast.Attribute) else None
            if isinstance(owner, ast.Name) and owner.id == receiver and isinstance(what, ast.Name):
                yield to.attr, what.id  # type: ignore[attr-defined]
