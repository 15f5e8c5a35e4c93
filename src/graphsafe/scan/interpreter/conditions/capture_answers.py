"""The results of tests such as `is_compiling()` while a step is captured.

`is_compiling()` is False in a plain capture and True under torch.compile. Helpers are evaluated too. A helper is a
small function of the project that combines such tests.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from graphsafe.scan.domain.values import Function, Lib, Number
from graphsafe.scan.execution.frame import Engine, Frame
from graphsafe.scan.sources.node_memo import memoize_on_node
from graphsafe.scan.symbols.index import dotted

CAPTURING = re.compile(
    r"(^|\.)(is_current_stream_capturing|is_cuda_stream_capturing|is_stream_capturing|is_capturing|is_graph_capturing"
    r"|is_in_cuda_graph_capture|get_is_capture_mode|is_graph_capture_mode)$"
)
"Matches functions that return True during every capture."
COMPILING = re.compile(r"(^|\.)(is_compiling|is_dynamo_compiling|is_torchdynamo_compiling|is_torch_compile)$")
"Matches functions that return True only under torch.compile."
TRACING = re.compile(
    r"(^|\.)(_?is_tracing|is_jit_tracing|is_fx_tracing|is_torch_fx_proxy|is_exporting|is_torchdynamo_exporting"
    r"|is_export_mode|is_in_onnx_export|is_scripting)$"
)
"Matches functions that return False during every capture, because they ask whether another tool is tracing."
PRESENT = re.compile(r"(^|\.)(cuda|accelerator)\.(is_available|is_initialized)$")
"Matches functions that return True on every machine on which steps can be captured."
MAX_STATEMENTS = 12
"The largest number of statements in a helper."


def answer(frame: Frame, test: ast.expr, compiled: bool) -> bool | None:
    """Return the result of a test during a capture (under torch.compile if `compiled`), or None if it is not known."""
    if isinstance(test, ast.Call):
        return _call(frame, test, compiled)
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = answer(frame, test.operand, compiled)
        return None if inner is None else not inner
    if isinstance(test, ast.BoolOp):
        parts = [answer(frame, part, compiled) for part in test.values]
        return decided(parts, isinstance(test.op, ast.Or))
    if isinstance(test, ast.Attribute) and test.attr == "is_cuda":
        # Tests for captures often begin with a test of the device: `x.is_cuda and is_current_stream_capturing()`.
        on_cuda = frame.evaluate_quietly(test)
        return on_cuda.const if type(on_cuda) is Number and type(on_cuda.const) is bool else None
    return None


@memoize_on_node
def asks_tracers(test: ast.expr, branch: bool) -> bool:
    """Return whether only a tracer takes this branch of a test. No step takes such a branch, whether the step is
    captured or not."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return asks_tracers(test.operand, not branch)
    if isinstance(test, ast.BoolOp):
        one_is_enough = isinstance(test.op, ast.And) is branch
        return (any if one_is_enough else all)(asks_tracers(part, branch) for part in test.values)
    return branch and isinstance(test, ast.Call) and TRACING.search(dotted(test.func) or "") is not None


def decided(parts: Iterable[bool | None], decisive: bool) -> bool | None:
    """Return the result of `or` if `decisive` is True, and the result of `and` if it is False. Return None if the
    result depends on unknown operands."""
    known = set(parts)
    return decisive if decisive in known else None if None in known else not decisive


def may_answer(call: ast.Call) -> bool:
    """Return whether a call may have a known result: a pattern above matches the function's name, or the function may
    be a helper."""
    return isinstance(call.func, ast.Name) or _by_name(_name(call), False) is not None


def _name(call: ast.Call) -> str:
    # In `torch.accelerator.current_stream().is_capturing()`, the called function is not a plain chain of names.
    return dotted(call.func) or (call.func.attr if isinstance(call.func, ast.Attribute) else "")


def _call(frame: Frame, call: ast.Call, compiled: bool) -> bool | None:
    name = _name(call)
    if isinstance(call.func, ast.Name) and call.func.id not in frame.env:
        called = frame.name(call.func.id)
        if type(called) is Function and called.node is None:
            engine, ref = frame.engine, called.ref
            question = ("capture answer", ref, compiled)
            helped: bool | None = engine.queries.ask(question, lambda: _helped(engine, ref, compiled), lambda: None)
            if helped is not None:
                return helped
        elif type(called) is Lib:
            name = called.name
    return _by_name(name, compiled)


@lru_cache(maxsize=4096)
def _by_name(name: str, compiled: bool) -> bool | None:
    if CAPTURING.search(name) or PRESENT.search(name):
        return True
    if COMPILING.search(name):
        return compiled
    if TRACING.search(name):
        # Other libraries, such as transformers, usually use the word "tracing" for torch.compile too.
        return name.endswith("is_tracing") and not name.startswith(("torch.", "torchvision.", "self."))
    return None


def _helped(engine: Engine, ref: str, compiled: bool) -> bool | None:
    """Return the result of a helper (a function of the project that only combines such tests), or None if it is not
    known."""
    node = engine.project.function_node(ref)
    file = engine.project.file_of(ref)
    if node is None or file is None:
        return None
    statements = list(_tried(node.body))
    if len(statements) > MAX_STATEMENTS:
        return None
    frame = Frame(engine, file, ref, {}, hot=False)
    returned = [statement.value for statement in statements if isinstance(statement, ast.Return)]
    answers: set[bool | None] = set()
    for value in returned:
        if isinstance(value, ast.Name):
            answers.add(_either_assigned(frame, statements, value.id, compiled))
        else:
            answers.add(answer(frame, value, compiled) if value is not None else None)
    return answers.pop() if len(answers) == 1 else None


def _tried(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of a function, except statements that handle errors."""
    for statement in body:
        if isinstance(statement, ast.Try):
            yield from _tried([*statement.body, *statement.orelse, *statement.finalbody])
        elif isinstance(statement, (ast.If, ast.With)):
            yield from _tried([*statement.body, *getattr(statement, "orelse", ())])
        elif not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)):
            yield statement


def _either_assigned(frame: Frame, statements: Iterable[ast.stmt], name: str, compiled: bool) -> bool | None:
    """Return the truth of a local name that has one assignment, perhaps followed by `|=`. If the name is true, `|=`
    cannot make it false."""
    found: list[bool | None] = []
    for statement in statements:
        if isinstance(statement, ast.Assign) and [dotted(target) for target in statement.targets] == [name]:
            found.append(answer(frame, statement.value, compiled))
        elif isinstance(statement, ast.AugAssign) and dotted(statement.target) == name:
            if not isinstance(statement.op, ast.BitOr):
                return None
            found.append(answer(frame, statement.value, compiled))
    if sum(isinstance(statement, ast.Assign) for statement in statements) > 1:
        return None
    return decided(found, True) if found else None
