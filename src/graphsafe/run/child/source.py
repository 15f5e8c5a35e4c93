"""Finds functions, loops, statements and calls in the program's files, as syntax trees."""

from __future__ import annotations

import ast
import functools
import inspect
import itertools
from collections.abc import Iterator, Mapping, Sequence
from types import CodeType, FrameType
from typing import Any, TypeGuard

from graphsafe.capture.shared.classify import Function, contains, span_of, tree_of
from graphsafe.capture.shared.frames import call_site, function_name
from graphsafe.report.model import CallSite, Span
from graphsafe.report.source import file_lines

_LOOPS = (ast.For, ast.AsyncFor, ast.While, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_SEEDING = ("manual_seed", "manual_seed_all", "set_rng_state", "set_rng_state_all", "set_state", "set_offset")
_BLOCKS = ("body", "orelse", "finalbody")


@functools.lru_cache(maxsize=16)
def file_tree(path: str) -> ast.Module:
    return tree_of(file_lines(path))


def base_of(expression: ast.expr) -> ast.expr:
    """Return an expression without its indices: `self.rows` for `self.rows[0][1:]`."""
    return base_of(expression.value) if isinstance(expression, ast.Subscript) else expression


def written_in_place(node: ast.AST) -> Sequence[ast.expr]:
    """Return the expressions that a node writes in place.

    Examples are `x.copy_(y)`, `x[:n] = y`, `x += y`, `out=x`, and NumPy's `np.copyto(x, y)` and `x.fill(0)`.
    """
    if isinstance(node, ast.Call):
        outs = [one.value for one in node.keywords if one.arg == "out"]
        method = node.func
        if isinstance(method, ast.Attribute):
            if method.attr == "fill" or (method.attr.endswith("_") and not method.attr.endswith("__")):
                outs.append(base_of(method.value))
            elif method.attr == "copyto":
                outs += map(base_of, node.args[:1])
        return outs
    if isinstance(node, ast.Assign):
        return [base_of(target) for target in node.targets if isinstance(target, ast.Subscript)]
    return [base_of(node.target)] if isinstance(node, ast.AugAssign) else ()


@functools.lru_cache(maxsize=1024)
def holding(path: str, line: int) -> Sequence[ast.AST]:
    """Return the syntax nodes that contain a line, outer nodes first."""
    found: list[ast.AST] = []
    todo: list[ast.AST] = [file_tree(path)]
    for node in todo:
        for child in ast.iter_child_nodes(node):
            first, last = getattr(child, "lineno", None), getattr(child, "end_lineno", None)
            if first is None or first <= line <= (last or line):
                todo.append(child)
                found += [] if first is None else [child]
    return found


def running_call(path: str, place: Span) -> ast.Call | None:
    calls = (one for one in holding(path, place[0]) if isinstance(one, ast.Call))
    return next((one for one in calls if span_of(one) == place), None)


def innermost(path: str, line: int, *kinds: Any) -> Any:
    """Return the innermost syntax node of these kinds that contains a line, or None."""
    return next((one for one in reversed(holding(path, line)) if isinstance(one, kinds)), None)


def block_with(path: str, statement: ast.stmt) -> Sequence[ast.stmt]:
    parts = (getattr(node, name, None) for node in ast.walk(file_tree(path)) for name in _BLOCKS)
    return next((one for one in parts if isinstance(one, list) and statement in one), ())


def lines_of(code: CodeType) -> set[int]:
    return {line for _, _, line in code.co_lines() if line is not None}


@functools.lru_cache(maxsize=256)
def function_of(code: CodeType) -> Function | None:
    """Return the syntax tree of a function, or None if it is not found in the file."""
    for node in ast.walk(file_tree(code.co_filename)):
        if isinstance(node, Function) and node.name == code.co_name:
            first = node.decorator_list[0] if node.decorator_list else node
            if first.lineno == code.co_firstlineno:
                return node
    return None


@functools.lru_cache(maxsize=256)
def lambda_of(code: CodeType) -> ast.Lambda | None:
    """Return the syntax tree of a lambda, if its line contains no other lambda."""
    nodes = ast.walk(file_tree(code.co_filename)) if code.co_name == "<lambda>" else ()
    found = [one for one in nodes if isinstance(one, ast.Lambda) and one.lineno == code.co_firstlineno]
    return found[0] if len(found) == 1 else None


@functools.lru_cache(maxsize=256)
def stored_in(function: ast.AST) -> frozenset[str]:
    nodes = (one for one in ast.walk(function) if isinstance(one, ast.Name))
    return frozenset(one.id for one in nodes if not isinstance(one.ctx, ast.Load))


@functools.lru_cache(maxsize=256)
def assigned_in(function: ast.AST, given: tuple[str, ...]) -> Mapping[str, ast.expr]:
    """Return the variables that exactly one statement assigns, with the assigned expressions."""
    nodes = [one.id for one in ast.walk(function) if isinstance(one, ast.Name) and not isinstance(one.ctx, ast.Load)]
    found: dict[str, ast.expr] = {}
    for one in (each for each in ast.walk(function) if isinstance(each, ast.Assign)):
        for target in one.targets:
            pairs = [(target, one.value)]
            if isinstance(target, ast.Tuple) and isinstance(one.value, ast.Tuple):
                pairs = list(zip(target.elts, one.value.elts, strict=False))
            found |= {name.id: value for name, value in pairs if isinstance(name, ast.Name)}
    return {name: value for name, value in found.items() if nodes.count(name) == 1 and name not in given}


def parameters(code: CodeType) -> tuple[str, ...]:
    """Return the names of a function's parameters, without `*args` and `**kwargs`."""
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def collecting_parameter(code: CodeType) -> str | None:
    """Return the name of a function's parameter `**kwargs`, or None."""
    at = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & inspect.CO_VARARGS)
    return code.co_varnames[at] if code.co_flags & inspect.CO_VARKEYWORDS else None


@functools.lru_cache(maxsize=64)
def captured_statements(path: str, line: int) -> Sequence[ast.stmt]:
    """Return the captured statements around a line.

    They are inside `with torch.cuda.graph(...)`, or between `capture_begin` and `capture_end`. Return () if there are
    none.
    """
    for node in reversed(holding(path, line)):
        if isinstance(node, ast.With) and any("graph" in ast.unparse(item.context_expr) for item in node.items):
            return node.body
        if isinstance(node, Function):
            break
        if isinstance(node, ast.stmt):
            block = block_with(path, node)
            last = block.index(node)
            begun = [at for at, one in enumerate(block[:last]) if _begins_capture(one)]
            if begun:
                return block[begun[-1] + 1 : last + 1]
    return ()


def _begins_capture(statement: ast.stmt) -> bool:
    call = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(call, ast.Call) and called_name(call.func) == "capture_begin"


def caller_that_decides(frames: Sequence[FrameType]) -> CallSite | None:
    """Return the line that passes the captured function to the capturing function, if the latter is a helper with a
    parameter for it.

    Such a helper, with `out = fn(*args)`, is shared by all graphs of a program. `frames` are the frames from the
    capturing function outwards. None means that the capturing function itself decides.
    """
    body = captured_statements(frames[0].f_code.co_filename, frames[0].f_lineno) if frames else ()
    value = getattr(body[0], "value", None) if len(body) == 1 else None
    called = value.func if isinstance(value, ast.Call) else None
    found = None
    for inner, outer in itertools.pairwise(frames):
        if not isinstance(called, ast.Name) or called.id not in parameters(inner.f_code):
            break
        called = given_by(outer, inner.f_code).get(called.id)
        if called is None and outer.f_code.co_name != "<module>":  # a wrapper, or a call that is not understood
            break
        found = call_site(outer.f_code, outer.f_lineno)
    return found


def given_by(outer: FrameType, inner: CodeType) -> dict[str, ast.expr]:
    """Return the expressions that a call in `outer` passes for the parameters of the function `inner`.

    For `*args`, this is a tuple of expressions.
    """
    function = function_of(outer.f_code)
    nodes = () if function is None else ast.walk(function)
    name = inner.co_name
    if name == "__init__":
        name = (function_name(inner) or "").removesuffix(".__init__").rpartition(".")[2]
    calls = [node for node in nodes if isinstance(node, ast.Call) and called_name(node.func) == name]
    here = [call for call in calls if contains(call, outer.f_lineno)]
    if len(here) != 1:
        return {}
    (call,), names = here, inner.co_varnames[: inner.co_argcount]
    first = call.args[0] if call.args else None
    is_bound = names[:1] == ("self",) and not (isinstance(first, ast.Name) and first.id == "self")
    names = names[1:] if is_bound else names
    given = given_to(call, names)
    if inner.co_flags & inspect.CO_VARARGS and not any(isinstance(one, ast.Starred) for one in call.args[: len(names)]):
        given[inner.co_varnames[len(parameters(inner))]] = ast.Tuple(call.args[len(names) :], ast.Load())
    return given


def given_to(call: ast.Call, names: Sequence[str]) -> dict[str, ast.expr]:
    """Return the expressions that a call passes for the parameters `names`. Positional arguments after a `*` are left
    out."""
    plain = itertools.takewhile(lambda one: not isinstance(one, ast.Starred), call.args)
    given = dict(zip(names, plain, strict=False))
    return given | {one.arg: one.value for one in call.keywords if one.arg is not None}


def unchanged(node: ast.AST) -> Iterator[ast.Call]:
    """Yield the calls whose results an expression returns, unchanged or as views: `run(x)` in `(run(x)[0], y)`."""
    if isinstance(node, ast.Call):
        yield node
    elif isinstance(node, (ast.Starred, ast.Subscript)):
        yield from unchanged(node.value)
    elif isinstance(node, (ast.Tuple, ast.List)):
        yield from (call for one in node.elts for call in unchanged(one))


def is_read(node: ast.AST) -> TypeGuard[ast.Name]:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)


def beside(function: ast.AST, line: int) -> Iterator[ast.AST]:
    """Yield the nodes of the branches that do not run when `line` runs: the `else` if the line is in the `if`, and vice
    versa."""
    for node in (one for one in ast.walk(function) if isinstance(one, ast.If)):
        arms = [arm for arm in (node.body, node.orelse) if arm]
        held = [arm for arm in arms if arm[0].lineno <= line <= (arm[-1].end_lineno or arm[-1].lineno)]
        for arm in arms if held else ():
            yield from (each for one in arm if arm is not held[0] for each in ast.walk(one))


def is_choice(code: CodeType, captured: int, replayed: int) -> bool:
    """Return whether a function decides at the line `captured` that it needs a new graph.

    In this case, the line is inside an `if` or a handler, and the line `replayed` is not.
    """
    function = function_of(code)
    nodes = () if function is None else ast.walk(function)
    blocks = (one for one in nodes if isinstance(one, (ast.If, ast.ExceptHandler)))
    return any(contains(one, captured) and not contains(one, replayed) for one in blocks)


def called_name(function: ast.expr) -> str | None:
    if isinstance(function, ast.Name):
        return function.id
    return function.attr if isinstance(function, ast.Attribute) else None


def same_loop(one: Sequence[CallSite], other: Sequence[CallSite]) -> bool:
    """Return whether the innermost loop around the call stack `one` also contains the call stack `other`.

    Both stacks begin with the outermost call. A check, a benchmark or a warm-up has its own loop. A timing helper has a
    loop that calls a given function. Such a loop counts as a separate loop for each function.
    """
    for depth in reversed(range(len(one))):
        path, line = one[depth].path, one[depth].line
        loop = loop_around(path, line)
        if loop is not None:
            if depth >= len(other) or one[:depth] != other[:depth]:
                return False
            if path != other[depth].path or not loop[0] <= other[depth].line <= loop[1]:
                return False
            is_one_call = line == other[depth].line and _calls_what_it_was_given(path, line)
            called = ((each.path, each.function) for each in one[depth + 1 :])
            named = {each for each in called if each[1] and not each[1].endswith("<lambda>")}
            return not is_one_call or any((each.path, each.function) in named for each in other[depth + 1 :])
    return False


@functools.lru_cache(maxsize=1024)
def _calls_what_it_was_given(path: str, line: int) -> bool:
    """Return whether a line in a loop calls a variable that the loop does not assign. The variable belongs to an
    enclosing function or to the module. A line that chooses one of two calls does not count."""
    around = holding(path, line)
    scopes: Sequence[ast.AST] = [one for one in around if isinstance(one, _FUNCTIONS)] or [file_tree(path)]
    given = {one.arg for scope in scopes for one in ast.walk(scope) if isinstance(one, ast.arg)}
    given = given.union(*map(stored_in, scopes)) - stored_in(innermost(path, line, *_LOOPS))
    called = [one.func.id for one in around if isinstance(one, ast.Call) and isinstance(one.func, ast.Name)]
    return not given.isdisjoint(called) and not any(isinstance(one, ast.IfExp) for one in around)


def tree_of_code(code: CodeType) -> ast.AST | None:
    """Return the syntax tree of a function or a module, or None if it is not found."""
    return file_tree(code.co_filename) if code.co_name == "<module>" else function_of(code)


def outer_loop(tree: ast.AST | None, line: int) -> ast.AST | None:
    """Return the outermost loop of a function or module around a line, or None."""
    loops = (one for one in ast.walk(tree) if isinstance(one, _LOOPS)) if tree is not None else ()
    return next((one for one in loops if contains(one, line)), None)


def is_in_loop(stack: Sequence[CallSite]) -> bool:
    return any(loop_around(one.path, one.line) is not None for one in stack)


@functools.lru_cache(maxsize=1024)
def loop_around(path: str, line: int) -> tuple[int, int] | None:
    """Return the first and last line of the innermost loop around a line, within the function that contains the
    line."""
    found = innermost(path, line, *_LOOPS, *_FUNCTIONS)
    return (found.lineno, found.end_lineno or found.lineno) if isinstance(found, _LOOPS) else None


def is_seeding(node: ast.AST) -> bool:
    """Return whether a node calls a method that sets the seed or the state of a random generator."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _SEEDING
