"""Tells whether a function takes tensors, by its annotations or by how the body uses its arguments. The body may pass
them to another function of the project that takes tensors."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Set

from graphsafe.optable import OpTable
from graphsafe.scan.execution.frame import Engine
from graphsafe.scan.interpreter.calls.parameter_usage import is_used_as_tensor, reversed_names
from graphsafe.scan.sources.node_memo import inside, memoize_on_node
from graphsafe.scan.symbols.blocks import Definition, with_defaults
from graphsafe.scan.symbols.index import FunctionFacts, dotted, elements, takes_slice
from graphsafe.scan.symbols.project import ref_of

_ARRAY = re.compile(r"\b(ndarray|NDArray|ArrayLike)\b")
MAX_CALLS = 3
"""The largest number of calls through which a parameter is followed. Public functions often check their arguments and
pass them to functions that check them again."""

_Call = tuple[str, tuple[tuple[int | str, str], ...]]
"A called function, and the caller's parameters that the call passes: position or keyword -> parameter."


def takes_tensors(function: Definition, ops: OpTable, is_method: bool, with_arithmetic: bool) -> bool:
    """Return whether one of the parameters is a tensor."""
    return any(True for _ in tensor_parameters(function, ops, is_method, with_arithmetic))


def tensor_parameters(function: Definition, ops: OpTable, is_method: bool, with_arithmetic: bool) -> Iterator[str]:
    """Yield the parameters that are tensors. A method's receiver is left out.

    With `with_arithmetic`, a parameter that is multiplied, compared or indexed is yielded too, unless its annotation or
    default shows another type. Numbers and arrays are used in the same way, so the caller decides whether such a use is
    enough.
    """
    for parameter, default in [*with_defaults(function)][1 if is_method else 0 :]:
        name = parameter.arg
        if name in _with_sides(function) or name in reversed_names(function):
            continue
        if parameter.annotation is not None:
            if _names_tensor(parameter.annotation):
                yield name
        elif _is_undeclared(parameter, default) and (
            is_used_as_tensor(function, name, ops, "step-input" if with_arithmetic else "parameter")
            or name in (_operands(function) if with_arithmetic else _copied(function))
        ):
            yield name


def undeclared(function: Definition) -> Iterator[str]:
    """Yield the parameters without an annotation or a default that shows their type."""
    return (parameter.arg for parameter, default in with_defaults(function) if _is_undeclared(parameter, default))


def _is_undeclared(parameter: ast.arg, default: ast.expr | None) -> bool:
    is_none = isinstance(default, ast.Constant) and default.value is None
    return parameter.annotation is None and (default is None or is_none)


def _names_tensor(annotation: ast.expr) -> bool:
    """Return whether an annotation promises a tensor. The result is False for `np.ndarray | Tensor`, because host code
    uses this annotation."""
    names = [*_names(annotation)]
    return any("Tensor" in name.replace("'", " ").split(".")[-1] for name in names) and not any(
        _ARRAY.search(name) for name in names
    )


def _names(annotation: ast.expr) -> Iterator[str]:
    for inner in ast.walk(annotation):
        if isinstance(inner, ast.Name):
            yield inner.id
        elif isinstance(inner, ast.Attribute):
            yield inner.attr
        elif isinstance(inner, ast.Constant) and isinstance(inner.value, str):
            yield inner.value


@memoize_on_node
def _operands(function: ast.AST) -> Set[str]:
    """Return the names that are used as tensors and numbers are: as operands, in comparisons, as indexed objects, as
    values of a slice (`x[:n] = y`), or as arguments of torch's functions and of methods that work in place."""
    operands: list[ast.expr] = []
    for sum_ in inside(function, ast.BinOp):
        if _is_number(sum_.left) or _is_number(sum_.right):
            continue
        if not isinstance(sum_.left, (ast.Constant, ast.JoinedStr)):
            operands += [sum_.left, sum_.right]
        elif isinstance(sum_.left, ast.Constant) and not isinstance(sum_.left.value, str):
            operands.append(sum_.right)
    for test in inside(function, ast.Compare):
        operands += (
            [test.left, *test.comparators] if isinstance(test.ops[0], (ast.Lt, ast.LtE, ast.Gt, ast.GtE)) else ()
        )
    for entry in inside(function, ast.Subscript):
        operands += [entry.value] if isinstance(entry.slice, (ast.Compare, ast.Tuple, ast.Slice)) else ()
    for call in inside(function, ast.Call):
        if (dotted(call.func) or "").startswith(("torch.", "F.")):
            operands += [part for given in call.args for part in elements(given)]
    for assignment in inside(function, ast.Assign):
        operands += [assignment.value] if any(map(takes_slice, assignment.targets)) else ()
    return _copied(function) | {operand.id for operand in operands if isinstance(operand, ast.Name)}


def _is_number(operand: ast.expr) -> bool:
    """Return whether an operand is a number like `x.item()`. The other operands are then numbers too."""
    return isinstance(operand, ast.Call) and isinstance(operand.func, ast.Attribute) and operand.func.attr == "item"


@memoize_on_node
def _with_sides(function: ast.AST) -> Set[str]:
    """Return the names whose attribute `size` is unpacked or indexed. These are images, because a tensor's `size` is a
    method."""
    unpacked = [one.value for one in inside(function, ast.Assign) if any(isinstance(t, ast.Tuple) for t in one.targets)]
    asked = (*unpacked, *(entry.value for entry in inside(function, ast.Subscript)))
    sizes = [one.value for one in asked if isinstance(one, ast.Attribute) and one.attr == "size"]
    return frozenset(one.id for one in sizes if isinstance(one, ast.Name))


@memoize_on_node
def _copied(function: ast.AST) -> Set[str]:
    """Return the names that are passed to a method that works in place, as in `best.copy_(loss)`."""
    return frozenset(
        argument.id
        for inner in inside(function, ast.Call)
        if isinstance(inner.func, ast.Attribute)
        if inner.func.attr.endswith("_") and not inner.func.attr.startswith("_")
        for argument in inner.args
        if isinstance(argument, ast.Name)
    )


# parameters that are passed on


def takes_tensors_at_last(engine: Engine, facts: FunctionFacts, path: str, with_arithmetic: bool) -> bool:
    """Return whether a function uses a parameter as a tensor, or passes a parameter on to a function that does."""
    return bool(_tensors(engine, facts, path, with_arithmetic, MAX_CALLS))


def _tensors(engine: Engine, facts: FunctionFacts, path: str, with_arithmetic: bool, calls: int) -> frozenset[str]:
    node = engine.project.function_node(f"{path}::{facts.name}")
    if node is None:
        return frozenset()
    found = {*tensor_parameters(node, engine.ops, facts.is_method, with_arithmetic)}
    for called, given in _handed_on(node) if calls else ():
        ref = _meant(engine, facts, path, called)
        other = engine.project.function_facts(ref) if ref is not None else None
        if ref is None or other is None:
            continue
        taken = _tensors(engine, other, ref.partition("::")[0], with_arithmetic, calls - 1)
        names = _positional(engine, ref, other)
        for place, name in given:
            if isinstance(place, int):
                place = names[place] if place < len(names) else ""
            if place in taken:
                found.add(name)
    return frozenset(found)


def _meant(engine: Engine, facts: FunctionFacts, path: str, called: str) -> str | None:
    """Return the project's function to which a name, `module.name` or `self.name` refers in a function, or None."""
    project = engine.project
    file = project.files.index(path)
    head, *rest = called.split(".")
    if file is None:
        return None
    if head in ("self", "cls") and facts.owner is not None:
        return project.find_method(f"{path}::{facts.owner}", rest[0]) if len(rest) == 1 else None
    binding = project.resolve(file, head)
    if binding is not None and rest:
        binding = project.member(binding, rest) if binding.kind == "module" else None
    return ref_of(binding, "function")


def _positional(engine: Engine, ref: str, facts: FunctionFacts) -> list[str]:
    node = engine.project.function_node(ref)
    names = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args)] if node is not None else []
    return names[1:] if facts.is_method else names


@memoize_on_node
def _handed_on(function: ast.AST) -> tuple[_Call, ...]:
    return tuple(_calls_with(function)) if isinstance(function, Definition) else ()


def _calls_with(function: Definition) -> Iterator[_Call]:
    own = {*undeclared(function)}
    for inner in inside(function, ast.Call) if own else ():
        called = dotted(inner.func)
        if called is None:
            continue
        given: list[tuple[int | str, str]] = []
        for position, argument in enumerate(inner.args):
            if isinstance(argument, ast.Starred):
                break
            if isinstance(argument, ast.Name) and argument.id in own:
                given.append((position, argument.id))
        for keyword in inner.keywords:
            if keyword.arg is not None and isinstance(keyword.value, ast.Name) and keyword.value.id in own:
                given.append((keyword.arg, keyword.value.id))
        if given:
            yield called, tuple(given)
