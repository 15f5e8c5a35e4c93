"""Names of a file that stand for numbers, options and strings: parameters, fields and local variables.

Annotations and defaults tell what a parameter is. If a parameter has neither, the calls in the file tell: `upto` is a
number if the file only ever passes values such as `len(tokens)` or the variable of `for upto in range(n)`.
"""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from graphsafe.scan.hazards.graph_syntax import Function, called_name, functions_in, own
from graphsafe.scan.hazards.graph_tensors import bindings
from graphsafe.scan.sources.node_memo import inside, memoize_on_node
from graphsafe.scan.symbols.blocks import matched, parameters, with_defaults
from graphsafe.scan.symbols.index import dotted, elements
from graphsafe.scan.symbols.project_files import Files

_COUNTS = frozenset("len int float round ord".split())
"Functions whose result is a number of the host."
_EXTENTS = frozenset("size dim numel".split())
"Methods of a tensor whose result is a number of the host."
_COMBINES = frozenset("min max sum next".split())
"Functions whose result is a number if their arguments are numbers."

_TYPES = frozenset("int float bool str".split())
_FIELD = re.compile(rb"^    (\w+): ([\w.]+)", re.M)
"Matches a field with an annotation in the body of a class."


@dataclass(frozen=True, slots=True)
class NumberNames:
    """The names in a file that stand for numbers, options or strings."""

    fields: Set[str]
    "Names of fields and parameters that are numbers or strings wherever the file declares them."
    passed: Mapping[Function, Set[str]]
    "Function -> its parameters for which calls in the file pass only numbers, and different ones."
    tables: Set[str] = frozenset()
    "Global names of dicts, lists and tuples that contain only numbers and strings."

    def parameters_of(self, function: Function) -> Set[str]:
        """Return the parameters of a function that are numbers, options or strings."""
        return declared(function) | self.passed.get(function, frozenset()) | as_bounds(own(function, ast.Slice))


@memoize_on_node
def numbers_in(tree: ast.Module) -> NumberNames:
    return NumberNames(_fields(tree), _passed(tree), frozenset(_tables(tree)))


def number_fields(files: Files) -> Set[str]:
    """Return the names of fields that are numbers, options or strings in every class of the project that declares
    them."""

    def made() -> Set[str]:
        types: dict[bytes, set[str]] = defaultdict(set)
        for path in files.names:
            for name, kind in _FIELD.findall(files.data(path) or b""):
                types[name].add(kind.decode())
        return {name.decode() for name, declared_as in types.items() if declared_as <= _TYPES}

    return files.table("fields that are numbers", made)


def _tables(tree: ast.Module) -> Iterator[str]:
    for made in (one for one in tree.body if isinstance(one, ast.Assign)):
        value = made.value
        values = value.values if isinstance(value, ast.Dict) else getattr(value, "elts", ())
        if values and all(isinstance(one, ast.Constant) and isinstance(one.value, (int, float, str)) for one in values):
            yield from (target.id for target in made.targets if isinstance(target, ast.Name))


def declared(function: Function) -> Set[str]:
    """Return the parameters whose annotation or default is a number or a string."""
    by_default = {
        one.arg
        for one, value in with_defaults(function)
        if one.annotation is None and isinstance(value, ast.Constant) and isinstance(value.value, (int, float, str))
    }
    return by_default | {one.arg for one in parameters(function) if names_number(one.annotation)}


def as_bounds(slices: Iterable[ast.Slice]) -> set[str]:
    """Return the names in the bounds of slices. Such names are numbers even without an annotation: `y[:, :length +
    1]`."""
    bounds = (bound for one in slices for bound in (one.lower, one.upper, one.step) if bound is not None)
    parts = (
        part for bound in bounds for part in ([bound.left, bound.right] if isinstance(bound, ast.BinOp) else [bound])
    )
    return {part.id for part in parts if isinstance(part, ast.Name)}


def names_number(annotation: ast.expr | None) -> bool:
    """Return whether an annotation is a type such as `int` or `str`, also as `Optional[int]` or `int | None`."""
    if isinstance(annotation, ast.Subscript) and (dotted(annotation.value) or "").endswith("Optional"):
        annotation = annotation.slice
    if isinstance(annotation, ast.BinOp) and isinstance(annotation.right, ast.Constant):
        annotation = annotation.left
    return isinstance(annotation, ast.Name) and annotation.id in _TYPES


def _fields(tree: ast.Module) -> Set[str]:
    names = [
        (node.target.id, names_number(node.annotation))
        for cls in inside(tree, ast.ClassDef)
        for node in cls.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    ]
    for function in functions_in(tree):
        numbers = declared(function)
        names += [(one.arg, one.arg in numbers) for one in parameters(function) if one.arg in numbers or one.annotation]
    return {name for name, is_number in names if is_number} - {name for name, is_number in names if not is_number}


def _passed(tree: ast.Module) -> Mapping[Function, Set[str]]:
    """Return the parameters without annotation for which all calls in the file pass numbers. A function that passes its
    own parameter on is judged by the calls of this function."""
    functions = functions_in(tree)
    count = Counter(function.name for function in functions)
    by_name = {function.name: function for function in functions if count[function.name] == 1}
    by_name.update(_callable_objects(tree))
    given: dict[tuple[Function, str], list[tuple[Function | ast.Module, ast.expr]]] = defaultdict(list)
    for caller in (tree, *functions):
        for call in own(caller, ast.Call):
            function = by_name.get(called_name(call))
            for value, parameter in matched(call, function) if function is not None else ():
                if function is not None and parameter.annotation is None:
                    given[function, parameter.arg].append((caller, value))
    # A parameter stays a number as long as no call passes anything else. A value that never changes is no option.
    numbers = {key for key, values in given.items() if _may_vary([value for _, value in values])}
    while True:
        known: dict[Function, set[str]] = defaultdict(set)
        for function, name in numbers:
            known[function].add(name)
        left = {key for key in numbers if all(_gives_number(caller, value, known) for caller, value in given[key])}
        if left == numbers:
            return known
        numbers = left


def _callable_objects(tree: ast.Module) -> Iterator[tuple[str, Function]]:
    """Yield the names of objects with a method `__call__`, each with this method: `self.denoise = Denoiser(net)`."""
    calling = {
        cls.name: method
        for cls in inside(tree, ast.ClassDef)
        for method in cls.body
        if isinstance(method, ast.FunctionDef) and method.name == "__call__"
    }
    for made in inside(tree, ast.Assign) if calling else ():
        cls = dotted(made.value.func) if isinstance(made.value, ast.Call) else None
        if cls in calling:
            yield from (((dotted(to) or "").rpartition(".")[2], calling[cls]) for to in made.targets)


def _may_vary(values: Sequence[ast.expr]) -> bool:
    return not isinstance(values[0], ast.Constant) or len({*map(ast.unparse, values)}) > 1


def _gives_number(around: Function | ast.Module, value: ast.expr, known: Mapping[Function, Set[str]]) -> bool:
    """Return whether the value of an expression in a function is certainly a number of the host."""
    numbers = {*known.get(around, ()), *declared(around)} if not isinstance(around, ast.Module) else set[str]()
    return _is_number(value, numbers, _assigned(around), 8)


def _is_number(value: ast.expr, numbers: Set[str], assigned: Mapping[str, Sequence[ast.expr]], depth: int) -> bool:
    def asked(one: ast.expr) -> bool:
        return depth > 0 and _is_number(one, numbers, assigned, depth - 1)

    match value:
        case ast.Constant():
            return isinstance(value.value, (int, float, str))
        case ast.Name():
            made = assigned.get(value.id)
            return all(map(asked, made)) if made else value.id in numbers
        case ast.BinOp():
            return asked(value.left) and asked(value.right)
        case ast.UnaryOp():
            return isinstance(value.op, ast.Not) or asked(value.operand)
        case ast.Compare():
            return all(map(asked, (value.left, *value.comparators)))
        case ast.BoolOp():
            return all(map(asked, value.values))
        case ast.IfExp():
            return asked(value.body) and asked(value.orelse)
        case ast.Subscript():
            return isinstance(value.value, ast.Attribute) and value.value.attr == "shape"
        case ast.GeneratorExp() | ast.ListComp():
            return asked(value.elt)
        case ast.Call(func=ast.Name(name)):
            return name in _COUNTS or (name in _COMBINES and bool(value.args) and all(map(asked, value.args)))
        case ast.Call(func=ast.Attribute(attr=name)):
            return name in _EXTENTS
    return False


@memoize_on_node
def _assigned(around: Function | ast.Module) -> Mapping[str, Sequence[ast.expr]]:
    """Map the local names of a function to the values that its assignments and loops give them."""
    found: dict[str, list[ast.expr]] = defaultdict(list)
    for target, value in (pair for made in own(around, ast.Assign) for pair in bindings(made)):
        if isinstance(target, ast.Name):
            found[target.id].append(value)
    for made in own(around, ast.AugAssign):
        if isinstance(made.target, ast.Name):
            found[made.target.id].append(made.value)
    for loop in own(around, ast.For):
        found_in = _turned(loop.target, loop.iter)
        for name, value in found_in:
            found[name].append(value)
    return found


def _turned(target: ast.expr, iterated: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """Yield the names that a loop binds, each with an expression of the same kind as its values."""
    called = dotted(iterated.func) if isinstance(iterated, ast.Call) else None
    given = iterated.args if isinstance(iterated, ast.Call) else []
    parts = elements(target)
    if called == "enumerate" and len(parts) == 2 and len(given) == 1:
        yield from _turned(parts[0], ast.Call(ast.Name("range"), [], []))
        yield from _turned(parts[1], given[0])
    elif called == "zip" and len(parts) == len(given):
        for part, one in zip(parts, given, strict=True):
            yield from _turned(part, one)
    elif isinstance(target, ast.Name) and called == "range":
        yield target.id, ast.Constant(0)
    elif isinstance(target, ast.Name) and isinstance(iterated, (ast.Tuple, ast.List)):
        yield from ((target.id, one) for one in iterated.elts)
    else:
        # Neither a call nor the name of a container is a number.
        yield from ((part.id, iterated) for part in parts if isinstance(part, ast.Name))
