"""Rewrites functions so that regions become breaks: the same code, with each region moved into a nested function.

The nested function shares its variables with the function around it (`nonlocal`). So the nested function does the same
as the statements, and its closure shows the values that flow in and out. Line numbers are those of the file.
"""

from __future__ import annotations
import __future__

import ast
import copy
import gc
import itertools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from types import CodeType, FunctionType
from typing import Any

from graphsafe.capture.plan.shared.regions import Function, Place, Region, grouped
from graphsafe.capture.plan.shared.statements import stores_in
from graphsafe.capture.shared.frames import absolute, function_name

HOOK = "_graphsafe_break"
EAGER = "_graphsafe_eager"
_FACTORY = "_graphsafe_factory"

Hook = Callable[[int, Callable[[], Any], tuple[str, ...]], Any]
"""A function that is called in place of region number `n`. The other arguments are a function that runs the region's
statements, and the names of the region's variables that are read later. The hook returns the result of the function
that runs the statements."""


class Uncuttable(Exception):
    """Raised if the code of a region cannot be changed. The message is the reason."""

    def __init__(self, region: Region, why: str) -> None:
        super().__init__(f"{region.function} cannot be cut: {why}")
        self.region = region


@contextmanager
def cut(regions: Sequence[Region], hook: Hook) -> Iterator[None]:
    """In this block, call `hook(n, ...)` each time that the code of `regions[n]` would run. Raises Uncuttable."""
    originals: list[tuple[FunctionType, CodeType, Hook | None]] = []
    try:
        by_function = grouped(dict(enumerate(regions)))
        for source, chosen in by_function.items():
            functions = living(source, *by_function)
            if not functions:
                raise Uncuttable(next(iter(chosen.values())), "no function object holds its code")
            for function in functions:
                code = _rewritten(source, chosen, function.__code__)
                # The function may already run the code of another rewrite.
                originals.append((function, function.__code__, function.__globals__.get(HOOK)))
                function.__globals__[HOOK] = hook
                function.__code__ = code
        yield
    finally:
        for function, code, outer in reversed(originals):
            function.__code__ = code
            if outer is None:
                function.__globals__.pop(HOOK, None)
            else:
                function.__globals__[HOOK] = outer


_living: dict[Function, tuple[FunctionType, ...]] = {}
"The function objects that were found. A search through all objects takes a tenth of a second."


def living(source: Function, *others: Function) -> tuple[FunctionType, ...]:
    """Return all function objects that run this code. The search also stores those of `others`, for later calls."""
    if source not in _living:
        _living.update({one: held for one, held in _found({source, *others} - _living.keys()).items() if held})
    return _living.get(source, ())


def _found(sources: Set[Function]) -> dict[Function, tuple[FunctionType, ...]]:
    wanted: dict[tuple[int, str], list[Function]] = {}
    for source in sources:
        wanted.setdefault((source.line, source.node.name), []).append(source)
    found: dict[Function, list[FunctionType]] = {source: [] for source in sources}
    # `gc.get_objects` does not list frozen objects. The objects that were imported before the fork are frozen.
    gc.unfreeze()
    for held in gc.get_objects():
        if type(held) is not FunctionType:
            continue
        code = held.__code__
        for source in wanted.get((code.co_firstlineno, code.co_name), ()):
            same_file = absolute(code.co_filename) == source.path
            if same_file and function_name(code) in (source.name, source.node.name):
                found[source].append(held)
    return {source: tuple(functions) for source, functions in found.items()}


def put_in_place(source: Function, written: Function) -> None:
    """Put the code of `written`, which is from another file, into all function objects that have the code of
    `source`. Raises Uncuttable."""
    functions = living(source)
    codes = [_rewritten(written, {}, function.__code__) for function in functions]
    for function, code in zip(functions, codes, strict=True):
        function.__code__ = code
    _living[written] = functions


def _rewritten(source: Function, regions: Mapping[int, Region], original: CodeType) -> CodeType:
    some = next(iter(regions.values()), source.whole())
    changed = copy.deepcopy(source.node)
    twin = Function(source.path, source.name, changed, source.owner)
    places = [(number, twin.place(region), region) for number, region in regions.items()]
    moved: set[str] = set()
    for number, place, region in sorted(places, key=lambda item: -item[2].first):
        if place is None:
            raise Uncuttable(region, "its statements are not found")
        moved |= stores_in(place.statements)
        place.block[place.start : place.stop] = _break(twin, number, place)
    _bind(changed, moved - source.globals - source.nonlocals)
    changed.decorator_list = []
    # The factory has the closure's variables, so that the function inside it gets the same closure.
    [factory] = _parsed(f"def {_FACTORY}(): {' = '.join([*original.co_freevars, 'None'])}", changed)
    factory.body.append(changed)
    top = factory
    if source.owner is not None:  # in a class, Python mangles private names
        [top] = _parsed(f"class {source.owner}: pass", changed)
        top.body = [factory]
    tree = ast.Module([top], [])
    try:
        flags = original.co_flags & __future__.annotations.compiler_flag
        made = compile(ast.fix_missing_locations(tree), source.path, "exec", flags, dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        raise Uncuttable(some, str(error)) from error
    code = _inner(made if source.owner is None else _inner(made, source.owner), _FACTORY)
    code = _inner(code, changed.name)
    if code.co_freevars != original.co_freevars:
        raise Uncuttable(some, "its closure would change")
    return _named(code, original.co_qualname) if sys.version_info >= (3, 11) else code


def _named(code: CodeType, name: str) -> CodeType:
    """Return the code, and the code of its inner functions, with the original qualified names."""
    inner = [
        _named(held, name + held.co_qualname.removeprefix(code.co_qualname)) if isinstance(held, CodeType) else held
        for held in code.co_consts
    ]
    return code.replace(co_qualname=name, co_consts=tuple(inner))


def _break(source: Function, number: int, place: Place) -> list[ast.stmt]:
    """Return the definition `def eager(): nonlocal ...; statements`, and the call of the hook."""
    statements, ends = place.statements, source.ends(place)
    outputs = () if ends else tuple(mangled(name, source.owner) for name in source.outputs(place))
    stored = stores_in(statements)
    scopes = {"global": stored & source.globals, "nonlocal": stored - source.globals}
    head = [f"    {scope} {', '.join(sorted(names))}" for scope, names in scopes.items() if names]
    call = f"{HOOK}({number}, {EAGER}, {outputs!r})"
    text = [f"def {EAGER}():", *head, "    pass", f"return {call}" if ends else call]
    eager, hooked = _parsed("\n".join(text), statements[0])
    eager.body[-1:] = [_Moved(source.first_argument).visit(copy.deepcopy(one)) for one in statements]
    return [eager, hooked]


def _parsed(text: str, at: ast.stmt) -> list[Any]:
    """Return the statements of this source, with the place of `at`."""
    body = ast.parse(text).body
    for node in itertools.chain.from_iterable(map(ast.walk, body)):
        ast.copy_location(node, at)
    return body


def _bind(node: ast.FunctionDef, names: set[str]) -> None:
    """Bind variables that only nested functions assign, so that they remain variables of this function."""
    if names:
        at = 1 if isinstance(node.body[0], (ast.Global, ast.Nonlocal)) else 0
        node.body[at:at] = _parsed(f"if False: {' = '.join(sorted(names))} = None", node.body[0])


def _inner(code: CodeType, name: str) -> CodeType:
    return next(found for found in code.co_consts if isinstance(found, CodeType) and found.co_name == name)


class _Moved(ast.NodeTransformer):
    """Rewrites syntax that has another meaning in a nested function: `super()`, annotations of variables, and
    declarations."""

    def __init__(self, first_argument: str | None) -> None:
        self._first_argument = first_argument

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        bare = isinstance(node.func, ast.Name) and node.func.id == "super" and not node.args
        if bare and self._first_argument is not None:
            node.args = [ast.Name("__class__", ast.Load()), ast.Name(self._first_argument, ast.Load())]
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        self.generic_visit(node)
        if node.value is None:
            return ast.copy_location(ast.Pass(), node)
        return ast.copy_location(ast.Assign([node.target], node.value), node)

    def visit_Global(self, node: ast.Global | ast.Nonlocal) -> ast.AST:
        return ast.copy_location(ast.Pass(), node)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.Lambda) -> ast.AST:
        return node

    visit_Nonlocal = visit_Global
    visit_Lambda = visit_FunctionDef


def mangled(name: str, owner: str | None) -> str:
    """Return a private name in the form that Python gives it in the class `owner`. Return any other name unchanged."""
    if owner is None or not name.startswith("__") or name.endswith("__"):
        return name
    return f"_{owner.lstrip('_')}{name}"
