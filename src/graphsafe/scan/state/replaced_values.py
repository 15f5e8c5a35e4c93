"""New values of state, compared with the values that they replace."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from graphsafe.scan.domain.frozen import replace
from graphsafe.scan.domain.values import Dict, Function, Sequence, Tensor, Value, as_tensor
from graphsafe.scan.execution.frame import Frame
from graphsafe.scan.sources.node_memo import inside, memoize_on_node, source_text
from graphsafe.scan.state import first_step
from graphsafe.scan.state.provenance import (
    all_bound,
    bound_expression,
    bound_to,
    bound_unless_missing,
    has_alternative,
    read_for_values,
)
from graphsafe.scan.symbols.blocks import matched
from graphsafe.scan.symbols.index import dotted, elements

CONVERSIONS = frozenset(
    "to type type_as cuda cpu contiguous detach float half bfloat16 double int long view reshape".split()
)
JOINING = frozenset(("cat", "concat", "concatenate", "stack", "hstack", "vstack", "pad"))

_IN_PLACE = re.compile(r"(?!set_$|resize_)[a-z]\w*[a-z0-9]_$")
"Matches the methods that write into a tensor and return it. Methods that give the tensor other memory are excluded."


@memoize_on_node
def mentions(node: ast.expr, text: str) -> bool:
    """Return whether an expression reads the attribute or element named `text`."""
    kinds: tuple[type[ast.expr], ...] = (ast.Name,) if text.isidentifier() else (ast.Attribute, ast.Subscript)
    return any(source_text(inner) == text for kind in kinds for inner in inside(node, kind))


def reads_old(frame: Frame, node: ast.expr, text: str) -> bool:
    """Return whether an expression is computed from the value that it replaces. It may read that value by its name, by
    a lookup, or through a local name."""
    return any(_reads(part, text) or _looks_up(part, text) for part in _with_locals(frame, node))


@memoize_on_node
def _reads(node: ast.expr, text: str) -> bool:
    """Return whether an expression reads the values of `text`, and not only the shape or dtype."""
    return mentions(node, text) and any(
        isinstance(inner, (ast.Name, ast.Attribute, ast.Subscript)) and source_text(inner) == text
        for inner in read_for_values(node)
    )


def first_asks_form(frame: Frame, node: ast.expr | None, text: str) -> bool:
    """Return whether an expression mentions `text`, and the function reads `text` nowhere before this expression."""
    if node is None or frame.node is None or not mentions(node, text):
        return False
    return all(inner.lineno >= node.lineno for inner in inside(frame.node, ast.Attribute) if source_text(inner) == text)


def _with_locals(frame: Frame, node: ast.expr) -> Iterator[ast.expr]:
    """Yield an expression, and the expressions that were assigned to its local names."""
    yield node
    for inner in inside(node, ast.Name):
        if isinstance(inner.ctx, ast.Load):
            bound = bound_expression(frame, inner)
            if bound is not None and bound is not inner:
                yield bound
                yield from bound_unless_missing(frame, inner)


@memoize_on_node
def _looks_up(node: ast.expr, text: str) -> bool:
    """Return whether an expression contains `table.get(key)`, if `text` is `table[key]`."""
    return any(
        isinstance(inner.func, ast.Attribute)
        and inner.func.attr == "get"
        and bool(inner.args)
        and f"{source_text(inner.func.value)}[{source_text(inner.args[0])}]" == text
        for inner in inside(node, ast.Call)
    )


def keeps_what_is_there(node: ast.expr | None, text: str) -> bool:
    """Return whether an expression keeps the old value: `self.scale if self.scale is not None else …`,
    `self.scale or …`."""
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
        return source_text(node.values[0]) == text
    if not isinstance(node, ast.IfExp):
        return False
    return any(
        source_text(kept) == text and text in first_step.lazy_tests(node.test, branch)
        for kept, branch in ((node.body, False), (node.orelse, True))
    )


def fills_if_missing(frame: Frame, node: ast.expr | None, text: str) -> bool:
    """Return whether a function receives the old value and makes a new one only if the old value is None:
    `self.buf = filled(self.buf, n)`."""
    called = frame.evaluate_quietly(node.func) if isinstance(node, ast.Call) else None
    function = frame.project.function_node(called.ref) if type(called) is Function else None
    if function is None or not isinstance(node, ast.Call):
        return False
    kept = {parameter.arg for value, parameter in matched(node, function) if source_text(value) == text}
    return any(
        not kept.isdisjoint(first_step.lazy_tests(test.test, True)) and not has_alternative(test.test)
        for test in inside(function, ast.If)
    )


def keeps_largest(node: ast.expr | None, text: str) -> bool:
    """Return whether an expression is like `max(n, self.limit)`. Most steps leave such a value unchanged."""
    return node is not None and any(
        dotted(inner.func) == "max" and mentions(inner, text) for inner in inside(node, ast.Call)
    )


def reads_by_name(frame: Frame, node: ast.expr, owner: ast.expr, name: ast.expr) -> bool:
    """Return whether an expression contains `getattr(owner, name)`, or a local name for it. Return False if the line
    runs only after a test shows that there is no such attribute."""
    asked = (bound_to(frame, test) for test in frame.lazy)
    if any(bound is not None and _asks_by_name(bound, owner, name) for bound in asked):
        return False
    # `h = getattr(self, name); h = cell(x, h)` has two assignments.
    parts = (inner for part in _with_locals(frame, node) for inner in _with_locals(frame, part))
    return any(_asks_by_name(part, owner, name) for part in parts)


def _asks_by_name(node: ast.expr, owner: ast.expr, name: ast.expr) -> bool:
    wanted = source_text(owner), source_text(name)
    return any(
        dotted(inner.func) == "getattr"
        and len(inner.args) > 1
        and (source_text(inner.args[0]), source_text(inner.args[1])) == wanted
        for inner in inside(node, ast.Call)
    )


def grows(frame: Frame, node: ast.expr | None, text: str) -> bool:
    """Return whether the new value contains the whole old value and more, as in `torch.cat([self.kv, k])`,
    `self.rows + [x]` and `[*self.rows, x]`."""
    if isinstance(node, ast.IfExp):
        return grows(frame, node.body, text) or grows(frame, node.orelse, text)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CONVERSIONS:
        return grows(frame, bound_expression(frame, node.func.value), text)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        sides = node.left, node.right
        return any(isinstance(side, ast.List) for side in sides) and any(_is_old(frame, side, text) for side in sides)
    if isinstance(node, ast.List):
        spread = [part.value for part in node.elts if isinstance(part, ast.Starred)]
        return len(spread) < len(node.elts) and any(_is_old(frame, part, text) for part in spread)
    if not isinstance(node, ast.Call) or (dotted(node.func) or "").rpartition(".")[2] not in JOINING:
        return False
    return any(_is_old(frame, part, text) for argument in node.args for part in elements(argument))


def merges_objects(node: ast.expr | None, text: str) -> bool:
    """Return whether the new value joins one attribute of two objects, for example of two batches that become one:
    `torch.cat([self.lengths, other.lengths])`. Such a tensor has as many rows as the batch, and other code removes
    rows."""
    name = text.rpartition(".")[2]
    parts = [part for one in (node.args if isinstance(node, ast.Call) else ()) for part in elements(one)]
    return any(isinstance(part, ast.Attribute) and part.attr == name and source_text(part) != text for part in parts)


def _is_old(frame: Frame, node: ast.expr, text: str) -> bool:
    bound = bound_expression(frame, node)
    return source_text(node) == text or (bound is not None and (source_text(bound) == text or _looks_up(bound, text)))


def puts_back(node: ast.expr | None, text: str) -> bool:
    """Return whether an attribute gets back a value that was read from it before: `was = self.mode; …; self.mode =
    was`."""
    parts = elements(node) if node is not None else ()
    return any(isinstance(part, ast.Attribute) and dotted(part) == text for part in parts)


def is_same_tensor(frame: Frame, value: Value, node: ast.expr | None, text: str) -> bool:
    """Return whether the value of an expression is the old tensor itself. The expression may also write into the
    tensor, as in `state["m"].mul_(0.9).add_(g)`, or be a local name for it."""
    return node is not None and as_tensor(value)[1] and {*_written(frame, node, text, frozenset())} == {text}


def _written(frame: Frame, node: ast.expr, text: str, known: frozenset[str]) -> Iterator[str | None]:
    """Yield the expressions of the tensors that an expression may return, perhaps after a write into the tensor. None
    stands for any other tensor."""
    if isinstance(node, ast.Call):
        out = next((keyword.value for keyword in node.keywords if keyword.arg == "out"), None)
        if out is not None and (dotted(node.func) or "").startswith("torch."):
            yield from _written(frame, out, text, known)
        elif isinstance(node.func, ast.Attribute) and _IN_PLACE.match(node.func.attr):
            yield from _written(frame, node.func.value, text, known)
        else:
            yield None
    elif not isinstance(node, ast.Name) or node.id == text:
        yield source_text(node)
    elif node.id not in known:
        # In a loop, a later line may bind the name for the next iteration, so all lines are searched.
        for bound in all_bound(frame, node.id):
            if bound is None:
                yield None
            else:
                yield from _written(frame, bound, text, known | {node.id})


def as_computed(frame: Frame, value: Value, node: ast.expr | None, text: str) -> Value:
    """Return the value of an assignment, after deciding whether it is a new tensor. An entry of a table is not a new
    tensor. A name may stand for the old tensor or for a sum, as after `x = self.x` and a loop over `x = x + y`. Such a
    name counts as the sum, which is a new tensor."""
    if type(value) is not Tensor or "[" in text:
        return value
    if value.fresh:
        return replace(value, fresh=False) if shows_entry(frame, node) else value
    bound = all_bound(frame, node.id) if isinstance(node, ast.Name) else ()
    sums = [one for one in bound if one is not None and source_text(one) != text]
    is_advanced = 0 < len(sums) < len(bound) and all(isinstance(one, ast.BinOp) for one in sums) and None not in bound
    return replace(value, fresh=True) if is_advanced else value


def shows_entry(frame: Frame, node: ast.expr | None) -> bool:
    """Return whether an expression is a part of a tensor that a container holds under a fixed key:
    `self.rows[0][:n]`."""
    while isinstance(node, ast.Subscript):
        if isinstance(node.slice, ast.Constant):
            held = frame.evaluate_quietly(node.value)
            if isinstance(held, (Sequence, Dict)) and held.held_by is not None:
                return True
        node = node.value
    return False


def converts(node: ast.expr | None, text: str) -> bool:
    """Return whether an expression only converts the value, or each element of it: `self.sinks.to(dtype)`. Later steps
    then change nothing."""
    if isinstance(node, ast.IfExp):  # `self.mask.to(dtype) if self.mask is not None else None`
        return converts(node.body, text) and source_text(node.orelse) in ("None", text)
    if isinstance(node, ast.ListComp):
        loop = node.generators[0]
        return source_text(loop.iter) == text and converts(node.elt, source_text(loop.target))
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr not in CONVERSIONS:
        return False
    return source_text(node.func.value) == text or converts(node.func.value, text)
