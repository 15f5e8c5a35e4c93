"""Uses of parameters in the body of a function. Some uses show that a parameter is a tensor."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from graphsafe.optable import OpTable, TensorHint
from graphsafe.scan.models.op_arguments import fits_tensors
from graphsafe.scan.sources.node_memo import inside, memoize_on_node
from graphsafe.scan.symbols.index import dotted, elements

_FUNCTIONS_OF = {"torch": "torch.", "F": "torch.nn.functional.", "torch.nn.functional": "torch.nn.functional."}
"A module's usual name in code -> the prefix of its functions in the op table. All these functions take tensors."

_OF_TENSORS = frozenset(
    (
        "_coalesced_ _conj _conj_physical _dimI _dimV _indices _is_view _is_zerotensor _lazy_clone _neg_view _nnz "
        "_to_dense _to_sparse _typed_storage _values _view_func"
    ).split()
)
"Methods of torch.Tensor whose names begin with an underscore."

_SIZED = frozenset("empty zeros ones rand randn new_empty new_zeros new_ones range".split())
"Functions and methods that make a tensor of a given size, and `range`."
_RESIZING = frozenset(("view", "reshape", "expand"))
"Methods of tensors whose arguments are sizes. As functions of torch, they take the tensor first."

SLICED, CONVERTED = "[:, …]", "type(torch.…)"
"""Special entries in `_Uses.names`: an index that no list or dict accepts (several dimensions, or a list), and a
conversion `x.type(torch.float32)`, which arrays lack."""


@memoize_on_node
def is_used_as_tensor(function: ast.AST, name: str, ops: OpTable, of: TensorHint) -> bool:
    """Return whether the body uses the parameter as only a tensor can be used: it reads a method or attribute that only
    tensors have, or passes the parameter to a function that takes only tensors.

    The op table lists the names that prove this. `of` is the kind of value: for a `parameter`, fewer names count as
    proof than for a `step-input`.
    """
    uses = _uses_by_name(function).get(name, _NO_USES)
    if uses.foreign:
        return False
    if not uses.names.isdisjoint((SLICED, CONVERTED)) or not ops.tensor_hints(of).isdisjoint(uses.names):
        return True
    return any(map(ops.takes_tensor, uses.names)) or any(ops.takes_tensor_at(*place) for place in uses.places)


@memoize_on_node
def names_of_sizes(function: ast.AST) -> frozenset[str]:
    """Return the names that a function passes as sizes: `torch.empty((rows, 4))`, `x.view(rows, -1)`, `range(rows)`."""
    found: set[str] = set()
    for call in inside(function, ast.Call):
        head, _, last = (dotted(call.func) or "").rpartition(".")
        if last in _SIZED or (last in _RESIZING and head not in _FUNCTIONS_OF):
            given = call.args[0].elts if call.args and isinstance(call.args[0], (ast.Tuple, ast.List)) else call.args
            found.update(size.id for size in given if isinstance(size, ast.Name))
    return frozenset(found)


@memoize_on_node
def reversed_names(function: ast.AST) -> frozenset[str]:
    """Return the names that are sliced in reverse order, `image[:, :, ::-1]`. These are arrays or sequences, because
    PyTorch refuses a negative step."""
    entries = [entry for entry in inside(function, ast.Subscript) if isinstance(entry.value, ast.Name)]
    steps = ((entry, part.step) for entry in entries for part in elements(entry.slice) if isinstance(part, ast.Slice))
    return frozenset(
        entry.value.id
        for entry, step in steps
        if isinstance(entry.value, ast.Name) and isinstance(step, ast.UnaryOp) and isinstance(step.op, ast.USub)
    )


@dataclass(slots=True)
class _Uses:
    """The uses of one name."""

    names: set[str] = field(default_factory=set)
    """The attributes that code reads from the name, the functions of torch that get the name as first argument, and
    perhaps `SLICED` and `CONVERTED`."""
    places: set[tuple[str, int]] = field(default_factory=set)
    """The calls that get the name as an argument: functions of torch, and methods that may be methods of tensors. Each
    comes with the name's position among the arguments."""
    foreign: set[str] = field(default_factory=set)
    """Uses that no tensor allows: private methods, arguments that tensors do not accept (`sort(key=len)`), and slices
    in reverse order."""


_NO_USES = _Uses()


@memoize_on_node
def _uses_by_name(function: ast.AST) -> Mapping[str, _Uses]:
    found: dict[str, _Uses] = {}
    for call in inside(function, ast.Call):
        method = call.func
        if not isinstance(method, ast.Attribute) or not isinstance(method.value, ast.Name):
            continue
        if _is_private(method.attr) or not fits_tensors(call):
            found.setdefault(method.value.id, _Uses()).foreign.add(method.attr)
    for name in reversed_names(function):
        found.setdefault(name, _Uses()).foreign.add("::-1")
    for used, how in _uses(function):
        uses = found.setdefault(used, _Uses())
        if isinstance(how, str):
            uses.names.add(how)
        else:
            uses.places.add(how)
    return found


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in _OF_TENSORS


def _uses(function: ast.AST) -> Iterator[tuple[str, str | tuple[str, int]]]:
    for read in inside(function, ast.Attribute):
        if isinstance(read.value, ast.Name):
            yield read.value.id, read.attr
    for call in inside(function, ast.Call):
        yield from _arguments(call)
        match call:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="type"), args=[given]):
                if (dotted(given) or "").startswith("torch."):
                    yield name, CONVERTED
    for product in inside(function, ast.BinOp):
        sides = (product.left, product.right) if isinstance(product.op, ast.MatMult) else ()
        yield from ((side.id, "__matmul__") for side in sides if isinstance(side, ast.Name))
    for entry in inside(function, ast.Subscript):
        if isinstance(entry.value, ast.Name) and _selects_along(entry.slice):
            yield entry.value.id, SLICED


def _arguments(call: ast.Call) -> Iterator[tuple[str, str | tuple[str, int]]]:
    head, _, last = (dotted(call.func) or "").rpartition(".")
    if call.args and (head in _FUNCTIONS_OF or last == "copy_"):
        # `torch.cat` takes a list of tensors, and `copy_` accepts only tensors.
        given = call.args[0].elts if isinstance(call.args[0], (ast.List, ast.Tuple)) else [call.args[0]]
        operation = "torch.Tensor.copy_" if last == "copy_" else _FUNCTIONS_OF[head] + last
        yield from ((name.id, operation) for name in map(_operand, given) if isinstance(name, ast.Name))
    if head in _FUNCTIONS_OF:
        operation, first = _FUNCTIONS_OF[head] + last, 0
    elif isinstance(call.func, ast.Attribute):
        operation, first = f"torch.Tensor.{call.func.attr}", 1
    else:
        return
    for position, argument in enumerate(map(_operand, call.args), first):
        if isinstance(argument, ast.Name):
            yield argument.id, (operation, position)


def _operand(node: ast.expr) -> ast.expr:
    """Return the operand that must be a tensor if the whole expression is a tensor: `x` in `x > 0`, `-x` and `2 *
    x`."""
    match node:
        case ast.Compare(left=operand, comparators=[ast.Constant()]):
            return _operand(operand)
        case ast.BinOp(left=operand, right=ast.Constant()) | ast.BinOp(left=ast.Constant(), right=operand):
            return _operand(operand)
        case ast.UnaryOp(op=ast.USub() | ast.Invert(), operand=operand):
            return _operand(operand)
    return node


def _selects_along(index: ast.expr) -> bool:
    """Return whether an index is a list of integers, or a tuple that contains `:`, `None` or `...`. No key of a dict
    looks like this."""
    if isinstance(index, ast.List):
        return bool(index.elts) and all(map(_is_integer, index.elts))
    parts = index.elts if isinstance(index, ast.Tuple) else []
    return any(isinstance(p, ast.Slice) or (isinstance(p, ast.Constant) and p.value in (None, Ellipsis)) for p in parts)


def _is_integer(node: ast.expr) -> bool:
    number = node.operand if isinstance(node, ast.UnaryOp) else node
    return isinstance(number, ast.Constant) and type(number.value) is int


@memoize_on_node
def moves_parts(function: ast.AST, name: str) -> bool:
    """Return whether a function copies parts of a parameter to a device: `x = batch[0].to(device)`, or `x, y = batch`
    with `x.cuda()` afterwards."""
    given: list[tuple[ast.expr, ast.expr]] = [(one.iter, one.target) for one in inside(function, ast.For)]
    given += [(one.iter, one.target) for one in inside(function, ast.comprehension)]
    unpacked = [one for one in inside(function, ast.Assign) if isinstance(one.value, (ast.Name, ast.Subscript))]
    given += [(one.value, target) for one in unpacked for target in one.targets]
    targets = [target for source, target in given if _root(source) == name]
    parts = {name, *(each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name))}
    moves = (call.func for call in inside(function, ast.Call) if isinstance(call.func, ast.Attribute))
    return any(each.attr in ("to", "cuda") and _root(each.value) in parts for each in moves)


def _root(node: ast.expr) -> str | None:
    """Return the name at which an expression such as `batch["x"].long()` begins, or None."""
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else None
