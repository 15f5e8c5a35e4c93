"""Functions with decorators of the project. The name of such a function stands for the function that the decorator
returns.
"""

from __future__ import annotations

import ast

from graphsafe.scan.domain.arguments import Arguments, Call
from graphsafe.scan.domain.values import UNKNOWN, Dict, Function, Unknown, Value, options
from graphsafe.scan.execution.frame import Engine, Frame
from graphsafe.scan.sources.node_memo import memoize_on_node
from graphsafe.scan.symbols.blocks import Definition
from graphsafe.scan.symbols.index import FunctionFacts
from graphsafe.scan.symbols.project import ref_of


def wrapper(engine: Engine, call: Call, facts: FunctionFacts) -> Function | None:
    """Return the closure that a decorator of the project puts in place of a function, or None.

    A function with loops of steps is read without its decorators, because the loops are known only for the function
    itself.
    """
    if call.plain or not facts.decorators or call.loops:
        return None
    ref = call.ref

    def work() -> Function | None:
        may_wrap = any(_may_wrap(engine, ref, decorator) for decorator in facts.decorators)
        return _wrapped(engine, ref) if may_wrap else None

    found: Function | None = engine.queries.ask(("decorated", ref), work, lambda: None)
    return found


def call_wrapper(frame: Frame, node: Definition, made: Function) -> Value:
    """Call the closure `made`, which replaces a decorated function, with the arguments of the function's call.

    These arguments are the values that the function's parameters have in `frame`.
    """
    spec = node.args
    names = [parameter.arg for parameter in (*spec.posonlyargs, *spec.args)]
    keywords = {parameter.arg: frame.env[parameter.arg] for parameter in spec.kwonlyargs}
    rest = frame.env[spec.kwarg.arg] if spec.kwarg is not None else None
    if type(rest) is Dict:
        keywords.update((str(name), value) for name, value in rest.items)
    further = UNKNOWN if spec.vararg is not None else None
    arguments = Arguments(tuple(frame.env[name] for name in names), keywords, further)
    closures = frame.engine.closures
    before, closures.given = closures.given, {**closures.given, frame.ref: (names, arguments)}
    try:
        return closures.call(frame, node, made, arguments)
    finally:
        closures.given = before


def passed_on(engine: Engine, function: Function, arguments: Arguments) -> Arguments:
    """Return the arguments that a wrapper passes to the wrapped function. If the code does not show them, return the
    arguments that the wrapper received."""
    if not function.plain or function.ref not in engine.closures.given:
        return arguments
    names, given = engine.closures.given[function.ref]
    told = dict(zip(names, arguments.positional[:1] if arguments.further else arguments.positional, strict=False))
    told.update(arguments.keywords)
    known = {name: value for name, value in told.items() if type(value) is not Unknown}
    positional = tuple(known.pop(name, value) for name, value in zip(names, given.positional, strict=True))
    keywords = {**given.keywords, **arguments.keywords, **known}
    return Arguments(positional, {name: value for name, value in keywords.items() if name not in names})


def _may_wrap(engine: Engine, ref: str, decorator: str) -> bool:
    project = engine.project
    function = ref_of(project.meaning(project.file_of(ref), decorator.partition("(")[0]), "function")
    node = project.function_node(function) if function is not None else None
    return node is not None and makes_function(node)


@memoize_on_node
def makes_function(node: Definition) -> bool:
    """Return whether a function defines an inner function and returns it."""
    defined = {inner.name for inner in node.body if isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef))}
    last = node.body[-1]
    return isinstance(last, ast.Return) and isinstance(last.value, ast.Name) and last.value.id in defined


def _wrapped(engine: Engine, ref: str) -> Function | None:
    file = engine.project.file_of(ref)
    node = engine.project.function_node(ref)
    if file is None or node is None:
        return None
    frame = Frame(engine, file, f"{file.path}::", {}, hot=False, level=0)
    made = Function(ref, plain=True)

    def apply(decorator: ast.expr) -> Value:
        value = frame.evaluate(decorator)
        call = ast.copy_location(ast.Call(decorator, [], []), decorator)
        return frame.call_value(call, value, Arguments((made,)))

    for decorator in reversed(node.decorator_list):
        for option in options(engine.quietly(lambda decorator=decorator: apply(decorator))):  # type: ignore[misc]
            if type(option) is Function and option.node is not None:
                made = option
    return made if made.node is not None else None
