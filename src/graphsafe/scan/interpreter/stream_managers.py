"""Context managers of the project that lead to a side stream, as in `with self.aside():`, and whether it is joined."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from graphsafe.scan.domain.values import Function, Instance, RuntimeObject, Value, options
from graphsafe.scan.execution.frame import Engine, Frame
from graphsafe.scan.hazards.side_stream import WAITS
from graphsafe.scan.sources.node_memo import inside, memoize_on_node
from graphsafe.scan.symbols.index import dotted

JOINS = WAITS | {"synchronize"}
SETS_STREAM = ("cuda.stream", "cuda.set_stream")


def entered(frame: Frame, node: ast.With | ast.AsyncWith, expression: ast.expr, manager: Value) -> None:
    """Emit a side stream whose work is joined neither by the manager when it ends nor by the function afterwards."""
    if not frame.hot or frame.node is None:
        return
    if _leads_aside(frame, expression, manager) and not _is_joined(frame, frame.node, node):
        frame.emit("StreamOp", "unjoined", expression)


def _leads_aside(frame: Frame, expression: ast.expr, manager: Value) -> bool:
    """Return whether a manager sets a side stream, and no other stream waits for it when the block ends."""
    if type(manager) is Instance:
        enter, leave = (frame.project.find_method(manager.ref, name) for name in ("__enter__", "__exit__"))
        if enter is None or not _sets_side_stream(frame.engine, Function(enter, manager)):
            return False
        left = frame.project.function_node(leave) if leave is not None else None
        return left is None or not _waits(inside(left, ast.Call))
    if not isinstance(expression, ast.Call):
        return False
    called = [option for option in options(frame.evaluate_quietly(expression.func)) if type(option) is Function]
    unjoined = [option for option in called if _yields_unjoined(frame.engine, option)]
    given = [frame.evaluate_quietly(argument) for argument in expression.args] if unjoined else []
    return any(_sets_side_stream(frame.engine, option, given) for option in unjoined)


def _sets_side_stream(engine: Engine, function: Function, given: Sequence[Value] = ()) -> bool:
    node, path = engine.project.function_node(function.ref), function.ref.partition("::")[0]
    file = engine.project.file(path)
    if node is None or file is None:
        return False
    frame = Frame(engine, file, function.ref, {}, hot=False, level=0)
    passed = [function.bound, *given] if function.bound is not None else given
    frame.env.update({argument.arg: value for argument, value in zip(node.args.args, passed, strict=False)})
    return any(
        type(option) is RuntimeObject and option.kind == "stream" and option.detail == "side"
        for stream in _streams_set(node)
        for option in options(frame.evaluate_quietly(stream))
    )


@memoize_on_node
def _streams_set(function: ast.AST) -> tuple[ast.expr, ...]:
    calls = inside(function, ast.Call)
    return tuple(call.args[0] for call in calls if call.args and (dotted(call.func) or "").endswith(SETS_STREAM))


def _yields_unjoined(engine: Engine, function: Function) -> bool:
    """Return whether a function under `contextmanager` sets a stream and waits for nothing after its `yield`."""
    facts, node = engine.project.function_facts(function.ref), engine.project.function_node(function.ref)
    if facts is None or node is None or not any(name.endswith("contextmanager") for name in facts.decorators):
        return False
    yields = [inner.lineno for inner in inside(node, ast.Yield)]
    if not yields or not _streams_set(node):
        return False
    return not _waits([call for call in inside(node, ast.Call) if call.lineno > max(yields)])


def _waits(calls: Sequence[ast.Call]) -> bool:
    return any(isinstance(call.func, ast.Attribute) and call.func.attr in JOINS for call in calls)


def _is_joined(frame: Frame, function: ast.FunctionDef | ast.AsyncFunctionDef, block: ast.With | ast.AsyncWith) -> bool:
    """Return whether the function waits for a stream or an event after the block, or calls a function that does."""
    last = block.end_lineno or block.lineno
    after = [call for call in inside(function, ast.Call) if call.lineno > last]
    if _waits(after):
        return True
    called = (frame.evaluate_quietly(call.func) for call in after)
    refs = {option.ref for value in called for option in options(value) if type(option) is Function}
    nodes = (frame.project.function_node(ref) for ref in refs)
    return any(node is not None and _waits(inside(node, ast.Call)) for node in nodes)
