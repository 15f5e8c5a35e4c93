"""Tests of PyTorch's version: `version.parse(torch.__version__) >= version.parse("1.8")`.

graphsafe supports PyTorch 2.6 and later. So a test for an older version has one result, and the other branch never
runs. A test for a later version stays open.
"""

from __future__ import annotations

import ast
import re
from typing import Literal

from graphsafe.scan.domain.naming import last_name
from graphsafe.scan.domain.values import Number, number
from graphsafe.scan.execution.frame import Frame
from graphsafe.scan.sources.node_memo import inside, memoize_on_node
from graphsafe.scan.symbols.index import dotted

OLDEST = 2, 6
"The oldest version that graphsafe supports."
_Form = Literal["text", "fields", "parsed", "major"]
"""How an expression gives the version: as text, as the fields of the text, as something that compares like a version,
or as the first number only."""
_PARSERS = frozenset("parse Version LooseVersion StrictVersion parse_version digit_version".split())
_PARTS: dict[str, _Form] = {"release": "parsed", "major": "major", "base_version": "text", "public": "text"}
"The forms of a parsed version's attributes."
_MAX_DEPTH = 4
"The largest number of global names that are followed."
_AT_LEAST = re.compile(r"torch_?(version)?_?(at_least|greater_(or_)?equal(_than)?|geq?)_v?(\d+)_(\d+)(_\d+)?$", re.I)
"Matches names of tests such as `TORCH_VERSION_AT_LEAST_2_5` and `is_torch_greater_or_equal_than_2_1`."
_OUTSIDE = frozenset(("TORCH_VERSION", "torch_version"))
"Names that other packages give to PyTorch's version."


def named(name: str) -> Number | None:
    """Return the result of a test whose name contains the version, or None if the name does not show the result."""
    found = _AT_LEAST.search(name)
    return number(True) if found is not None and (int(found[5]), int(found[6])) <= OLDEST else None


def compared(frame: Frame, node: ast.Compare) -> Number | None:
    """Return the result of a comparison of PyTorch's version, or None if it is another comparison or if supported
    versions differ."""
    bound = _bound(node.comparators[0]) if len(node.ops) == 1 else None
    if bound is None or not _may_be_version(node.left):
        return None
    form = _form(frame, node.left, _MAX_DEPTH)
    if form in (None, "fields") or (form == "major") != (len(bound) == 1):
        return None
    if form == "text" and bound[0] > 1:
        # Texts are compared by character: "2.11" comes before "2.6".
        return None
    oldest = (*OLDEST, 0)[: len(bound)]
    match node.ops[0]:
        case ast.GtE() if bound <= oldest:
            return number(True)
        case ast.Gt() | ast.NotEq() if bound < oldest:
            return number(True)
        case ast.Lt() if bound <= oldest:
            return number(False)
        case ast.LtE() | ast.Eq() if bound < oldest:
            return number(False)
    return None


@memoize_on_node
def _may_be_version(node: ast.expr) -> bool:
    names = [*(one.id for one in inside(node, ast.Name)), *(one.attr for one in inside(node, ast.Attribute))]
    return any(word in name.lower() for name in names for word in ("version", "torch", "major"))


@memoize_on_node
def _bound(node: ast.expr) -> tuple[int, ...] | None:
    """Return the constant with which a version is compared: (1, 8) for `"1.8"`, `version.parse("1.8")` and `(1, 8)`."""
    if isinstance(node, ast.Call) and len(node.args) == 1 and last_name(node.func) in _PARSERS:
        node = node.args[0]
    if isinstance(node, (ast.Tuple, ast.List)):
        fields = [one.value for one in node.elts if isinstance(one, ast.Constant) and type(one.value) is int]
        return tuple(fields) if fields and len(fields) == len(node.elts) else None
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return (node.value,)
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        found = re.match(r"\d+(\.\d+){1,2}", node.value)
        return tuple(map(int, found[0].split("."))) if found is not None else None
    return None


def _form(frame: Frame, node: ast.expr, depth: int) -> _Form | None:
    """Return how an expression gives PyTorch's version, or None if it does not."""
    if dotted(node) == "torch.__version__":
        return "text"
    match node:
        case ast.Name(id=name):
            return _form_of_global(frame, name, depth)
        case ast.Attribute(value=owner, attr=part) if part in _PARTS:
            return _PARTS[part] if _form(frame, owner, depth) == "parsed" else None
        case ast.Call(func=ast.Attribute(value=text, attr="split"), args=[ast.Constant(value="."), *_]):
            return "fields" if _form(frame, text, depth) == "text" else None
        case ast.Subscript(
            value=ast.Call(func=ast.Attribute(value=text, attr="split"), args=[ast.Constant(value=separator), *_]),
            slice=ast.Constant(value=0),
        ) if separator != ".":
            # `torch.__version__.split("+")[0]` leaves out the build.
            return "text" if _form(frame, text, depth) == "text" else None
        case ast.Subscript(value=fields, slice=ast.Slice(lower=None)):
            form = _form(frame, fields, depth)
            return form if form in ("fields", "parsed") else None
        case ast.Subscript(value=fields, slice=ast.Constant(value=0)):
            return "major" if _form(frame, fields, depth) in ("fields", "parsed") else None
        case ast.Call(func=ast.Name(id="tuple" | "list"), args=[inner]):
            return "parsed" if _form_of_items(frame, inner, depth) in ("fields", "parsed") else None
        case ast.ListComp():
            return "parsed" if _form_of_items(frame, node, depth) == "fields" else None
        case ast.Call(func=ast.Name(id="int"), args=[inner]):
            return "major" if _form(frame, inner, depth) == "major" else None
        case ast.Call(func=ast.Name(id="str"), args=[inner]):
            return "text" if _form(frame, inner, depth) in ("text", "parsed") else None
        case ast.Call(func=function, args=[inner]) if last_name(function) in _PARSERS:
            return "parsed" if _form(frame, inner, depth) in ("text", "parsed") else None
    return None


def _form_of_items(frame: Frame, node: ast.expr, depth: int) -> _Form | None:
    """Return the form of the items that `tuple` gets: `map(int, fields)`, `int(part) for part in fields`."""
    match node:
        case ast.Call(func=ast.Name(id="map"), args=[ast.Name(id="int"), inner]):
            return _form(frame, inner, depth)
        case ast.GeneratorExp(generators=[one]) | ast.ListComp(generators=[one]):
            return _form(frame, one.iter, depth)
    return _form(frame, node, depth)


def _form_of_global(frame: Frame, name: str, depth: int) -> _Form | None:
    if name in frame.env or not depth:
        return None
    project = frame.engine.project
    binding = project.resolve(frame.file, name)
    if binding is not None and binding.kind == "lib" and binding.name == "torch.__version__":
        return "text"
    if binding is None or binding.kind == "lib":
        return "text" if name in _OUTSIDE else None
    lines = project.assigned(binding.path, binding.name) if binding.kind == "assign" else ()
    statement = project.files.statement(binding.path, *lines[0]) if len(lines) == 1 else None
    file = project.files.index(binding.path)
    if file is None or not isinstance(statement, ast.Assign):
        return None
    return _form(Frame(frame.engine, file, f"{file.path}::", {}, hot=False), statement.value, depth - 1)
