"""The statements of modules, classes and functions, the names that statements bind, and the parameters of functions."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping

from graphsafe.scan.sources.node_memo import memoize_on_node

Definition = ast.FunctionDef | ast.AsyncFunctionDef


def blocks_of(node: ast.stmt) -> Iterator[list[ast.stmt]]:
    """Yield the blocks of a compound statement."""
    fields = node._fields
    if "body" in fields:
        yield node.body  # type: ignore[attr-defined]
    if "orelse" in fields:
        yield node.orelse  # type: ignore[attr-defined]
    if "finalbody" in fields:
        yield node.finalbody  # type: ignore[attr-defined]
    for name in ("handlers", "cases"):
        if name in fields:
            for part in getattr(node, name):
                yield part.body


def statements_by_line(body: Iterable[ast.stmt]) -> dict[tuple[int, int], ast.stmt]:
    """Return the statements of a module and of its classes. The keys are their first and last lines. Statements that
    share a line with another statement are left out."""
    found: dict[tuple[int, int], ast.stmt] = {}
    bodies = [body]
    for block in bodies:
        before: tuple[int, int] | None = None
        for node in block:
            lines = first_line(node), node.end_lineno or node.lineno
            if before is not None and before[1] == lines[0]:
                found.pop(before, None)
            else:
                found.setdefault(lines, node)
            before = lines
            if isinstance(node, (ast.ClassDef, ast.If, ast.Try, ast.With, ast.For, ast.While)):
                bodies.extend(blocks_of(node))
    return found


def first_line(node: ast.stmt) -> int:
    """Return the first line of a statement, including its decorators."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def statements_within(node: ast.stmt) -> Iterator[ast.stmt]:
    """Yield all statements inside a statement. A walk over all nodes would visit ten times as many nodes."""
    blocks = [*blocks_of(node)]
    for block in blocks:
        for statement in block:
            yield statement
            blocks.extend(blocks_of(statement))


def flat(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of a class or function body, including conditional ones."""
    for statement in body:
        yield statement
        if isinstance(statement, (ast.If, ast.Try, ast.With)):
            for block in blocks_of(statement):
                yield from flat(block)


def targets_of(node: ast.stmt) -> Iterator[ast.expr]:
    """Yield the names, attributes and subscripts to which a statement assigns."""
    if isinstance(node, ast.Assign):
        targets: list[ast.expr] = list(node.targets)
    elif isinstance(node, (ast.AnnAssign, ast.AugAssign, ast.For, ast.AsyncFor)):
        targets = [node.target]
    else:
        return
    while targets:
        target = targets.pop()
        if isinstance(target, (ast.Tuple, ast.List)):
            targets.extend(target.elts)
        elif isinstance(target, ast.Starred):
            targets.append(target.value)
        else:
            yield target


def bound_names(node: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement binds."""
    return (target.id for target in targets_of(node) if isinstance(target, ast.Name))


def attribute_of(node: ast.AST | None, owner: str) -> str | None:
    """Return `a` for `self.a`, if `owner` is `self`; None for any other expression."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == owner:
        return node.attr
    return None


def bound_value(node: ast.stmt, name: str) -> ast.expr | None:
    """Return the expression that a statement binds to a name, or None if the statement does not show it. For `m` in `g,
    m = 9.8, 1.0`, return `1.0`."""
    value: ast.expr | None = getattr(node, "value", None)
    for target in node.targets if isinstance(node, ast.Assign) else ():
        if isinstance(target, ast.Name) and target.id == name:
            return value
        names = [getattr(part, "id", None) for part in getattr(target, "elts", ())]
        if name in names:
            parts = getattr(value, "elts", ())
            return parts[names.index(name)] if len(parts) == len(names) else None
    return value if isinstance(node, ast.AnnAssign) else None


@memoize_on_node
def kept_names(constructor: Definition) -> Mapping[str, str]:
    """Map attributes of `self` to the names (mostly of parameters) that top-level statements assign to them."""
    receiver = constructor.args.args[0].arg if constructor.args.args else ""
    found: dict[str, str] = {}
    for statement in constructor.body:
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            continue
        target, value = statement.targets[0], statement.value
        pairs = [(target, value)]
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
            pairs = [*zip(target.elts, value.elts, strict=True)]
        for to, what in pairs:
            attribute = attribute_of(to, receiver)
            if attribute is not None and isinstance(what, ast.Name):
                found[attribute] = what.id
    return found


def parameters(function: Definition) -> list[ast.arg]:
    """Return the parameters of a function, without `*args` and `**options`."""
    return [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]


def with_defaults(function: Definition) -> Iterator[tuple[ast.arg, ast.expr | None]]:
    """Yield each parameter with its default, without `*args` and `**options`."""
    spec = function.args
    positional = [*spec.posonlyargs, *spec.args]
    missing: list[ast.expr | None] = [None] * (len(positional) - len(spec.defaults))
    yield from zip(positional, [*missing, *spec.defaults], strict=True)
    yield from zip(spec.kwonlyargs, spec.kw_defaults, strict=True)


def matched(call: ast.Call, function: Definition) -> Iterator[tuple[ast.expr, ast.arg]]:
    """Yield the arguments of a call, each with the parameter that receives it."""
    positional = [*function.args.posonlyargs, *function.args.args]
    if positional and positional[0].arg in ("self", "cls"):
        positional = positional[1:]
    yield from zip(call.args, positional, strict=False)
    named = {one.arg: one for one in (*positional, *function.args.kwonlyargs)}
    yield from ((word.value, named[word.arg]) for word in call.keywords if word.arg in named)
