"""Finds the rule for an event of a step, by its operation, the torch function around it, and its expression.

These are pure functions of events and of the user's source. The parent applies the functions to the children's answers.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from graphsafe.capture.answers.events import StepEvent
from graphsafe.optable import OpTable
from graphsafe.optable.entries import UNKNOWN, Argument, Call, Effect, Op
from graphsafe.report.model import CallSite, Span
from graphsafe.report.source import kept_by_lines
from graphsafe.rulebook.book import load_rulebook
from graphsafe.rulebook.libraries import Libraries

Function = ast.FunctionDef | ast.AsyncFunctionDef


def tree_of(lines: Sequence[str] | None) -> ast.Module:
    """Parse the lines of a file. The tree is empty if the file could not be read, or has syntax errors in this version
    of Python."""
    try:
        return ast.parse("\n".join(lines or ()))
    except (SyntaxError, ValueError, RecursionError):
        return ast.Module([], [])


_FORMATS = ("__format__", "__repr__", "__str__")
CODE_OF_CAUSE = {"unjoined-stream": "GS603", "foreign-stream": "GS604"}
"Cause of a `Diagnosis` -> the code of the rule, for causes that determine the rule without the event."
_BY_INDEX = frozenset({"aten::index_put_", "aten::_index_put_impl_", "aten::_to_copy"})
"In a store through an index tensor, these operations copy the stored value to the device."
_OF_MASK = "aten::_nested_tensor_from_mask_left_aligned"
"The operation by which a TransformerEncoder asks whether a mask allows a nested tensor."
_EXTENT_CALLS = frozenset({"range", "islice"})
_OF_VALUES = frozenset({"GS101", "GS102"})
_READING = ("hidden-sync", "dynamic-shape", "reads-host", "branches")
"Kinds of effects that read the device, the most specific first."


def value_read(code: str, inside: str | None = None) -> str:
    """Return the text that replaces `value` in a rule's message. `inside` is the function of torch that reads the
    value, if the user's code does not read it itself."""
    value = "a host tensor" if code == "GS304" else "a device value"
    return value if inside is None else f"{value} inside `{inside}`"


def reader_of(event: StepEvent, code: str) -> str | None:
    """Return the function of torch that reads a value. Return None if the user's code reads the value itself, for
    example by `x.item()` or `y in x`."""
    of_tensors = event.called is None or event.called.startswith("torch.Tensor.")
    return event.called if code in _OF_VALUES and not of_tensors else None


def code_of(event: StepEvent, ops: OpTable) -> str | None:
    """Return the code of the rule that an event breaks. Return None for an event that breaks no rule, such as a draw
    from a registered generator."""
    kind, data = event.kind, event.data
    via = event.via or ""
    method = via.rpartition(".")[2] if via.startswith("torch.Tensor.") else ""
    if method in _FORMATS:
        return "GS104"
    if kind not in ("allocation", "random") and (inside := _of_torch_function(event, ops)) is not None:
        return inside
    if kind in ("wait", "query"):
        return "GS105"
    if kind == "read":
        return _read(event, method, ops)
    if kind == "extent":
        if data.get("mask"):
            return "GS202"
        if method in ("__getitem__", "__setitem__"):
            return "GS203" if method == "__getitem__" and _in_slice(event) else "GS202"
        return _tabled(event, ops, ("dynamic-shape",)) or "GS201"
    if kind == "copy-to-host":
        return "GS101" if method in ("item", "tolist") else "GS103"
    if kind == "copy-to-device":
        return _to_device(event, method, ops)
    if kind == "allocation":
        return "GS403" if data.get("pinned") else "GS401"
    if kind == "random":
        return {"reseed": "GS503", "state": "GS503", "private-generator": "GS502", "host-random": "GS504"}.get(
            data.get("how", "")
        )
    return _tabled(event, ops, ("hidden-sync", "waits", "dynamic-shape", "reads-host", "branches")) or "GS106"


def how_of(event: StepEvent, code: str, ops: OpTable) -> str | None:
    """Return the `how` of an event. As in events of scan, `how` selects one of the rule's messages, and None selects
    the default message."""
    if reader_of(event, code) is not None:
        return "inside"
    if code == "GS106":
        entry = ops.python(event.called or "")
        known = () if entry is None else entry.effects
        return "nested" if event.op == _OF_MASK else next((one.how for one in known if one.rule == code), None)
    if code != "GS303":
        return None
    if event.op in _BY_INDEX:
        return "by-index"
    if event.op != "aten::copy_" or event.nbytes is None:
        return None
    bits = re.search(r"\d+", str(event.data.get("dtype", "")))
    return "host-part" if event.nbytes > (int(bits[0]) // 8 if bits else 1) else "scalar"


def code_of_failure(event: StepEvent, ops: OpTable) -> str:
    """Return the rule for an event that made a capture fail. Return GS607 if the operation is not known to break
    captures."""
    known = ops.aten(event.op) or ops.python(event.via or "")
    plain = event.kind == "hidden-sync" and (known is None or not any(effect.rule for effect in known.effects))
    return "GS607" if plain else code_of(event, ops) or "GS607"


def _read(event: StepEvent, method: str, ops: OpTable) -> str:
    node = node_at(event.frames, event.span)
    if method in ("__bool__", "__contains__"):
        casts = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "bool"
        return "GS101" if casts else "GS102"
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and isinstance(node.left, ast.Constant):
        return "GS104"  # `"%d" % x` calls `__int__`
    if method in ("__index__", "__getitem__"):
        if _in_slice(event):
            return "GS203"
        is_extent = method == "__index__" and isinstance(node, ast.Call) and _called(node) != "index"
        return "GS203" if is_extent else "GS101"  # `operator.index(x)`, `items[x]` and `[0] * x` read a number
    if method in ("item", "tolist", "__int__", "__float__", "__complex__"):
        return "GS203" if isinstance(node, ast.Call) and _called(node) in _EXTENT_CALLS else "GS101"
    if method in ("numpy", "__array__", "cpu"):
        return "GS103"
    return _tabled(event, ops, ("dynamic-shape", "hidden-sync", "reads-host", "branches")) or "GS101"


def _of_torch_function(event: StepEvent, ops: OpTable) -> str | None:
    """Return the rule for a call of a torch function that is known to wait. The read of the device is inside this
    function, not in the user's code."""
    name = event.called or ""
    entry = ops.python(name)
    kinds = {"read": _READING, "extent": _READING[:2]}.get(event.kind, _READING[:1])
    found = _code_in([(name, entry)], kinds, event)
    return "GS106" if found is None and (model := _libraries().find(name)) is not None and model.waits else found


@functools.cache
def _libraries() -> Libraries:
    return load_rulebook().libraries  # without a project's packs, because they do not describe torch


def _to_device(event: StepEvent, method: str, ops: OpTable) -> str:
    data = event.data
    if method == "__getitem__" or data.get("index"):
        return "GS302"
    if method == "__setitem__":
        return "GS303"
    if data.get("literal") or _moves_literal(event, method):
        return "GS301"
    found = _tabled(event, ops, ("copies",))
    return found if found in ("GS301", "GS302", "GS303") else "GS304"


def _tabled(event: StepEvent, ops: OpTable, kinds: tuple[str, ...]) -> str | None:
    """Return the rule's code from the op table. The entry of the torch function is tried before the entry of the aten
    op."""
    via = event.via or ""
    return _code_in([(via, ops.python(via)), ("", ops.aten(event.op)), (event.op, ops.python(event.op))], kinds, event)


def _code_in(entries: Sequence[tuple[str, Op | None]], kinds: Sequence[str], event: StepEvent) -> str | None:
    """Return the rule of the first effect that has one of these kinds. The kinds are tried in order. An effect that
    needs a tensor for some parameter is used only if the call may pass a tensor for it."""
    node = node_at(event.frames, event.span)
    found: list[Effect] = []
    for name, entry in entries:
        if entry is not None:
            call = _shown(name, node)
            found += [effect for effect in entry.effects if call is None or _may_give(call, entry, effect)]
    return next((one.rule for kind in kinds for one in found if one.kind == kind and one.rule is not None), None)


def _may_give(call: Call, entry: Op, effect: Effect) -> bool:
    parameters = effect.when.kinds if effect.when is not None else ()
    return all(any(one.literal is UNKNOWN for one in entry.arguments(call, parameter)) for parameter in parameters)


def _shown(name: str, node: ast.AST | None) -> Call | None:
    """Return the arguments that the source of a call shows, or None if it does not show all of them."""
    if not isinstance(node, ast.Call) or any(isinstance(one, ast.Starred) for one in node.args):
        return None
    receiver = [node.func.value] if name.startswith("torch.Tensor.") and isinstance(node.func, ast.Attribute) else []
    keywords = {one.arg: _argument(one.value) for one in node.keywords if one.arg is not None}
    whole = len(keywords) == len(node.keywords)
    return Call([*map(_argument, (*receiver, *node.args))], keywords) if whole else None


def _argument(node: ast.expr) -> Argument:
    try:
        return Argument(literal=ast.literal_eval(node))
    except (ValueError, TypeError):
        return Argument()


def _in_slice(event: StepEvent) -> bool:
    """Return whether the index expression that ran is a slice, or contains a slice for one of its dimensions."""
    node = node_at(event.frames, event.span)
    index = node.slice if isinstance(node, ast.Subscript) else node
    return any(isinstance(part, ast.Slice) for part in (index.elts if isinstance(index, ast.Tuple) else [index]))


def _moves_literal(event: StepEvent, method: str) -> bool:
    """Return whether the expression that ran is `torch.tensor(...).to(...)` or the like. The literal may also be in a
    variable."""
    node = node_at(event.frames, event.span)
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    moved = node.args[0] if method == "copy_" and node.args else node.func.value
    made = [moved]
    if isinstance(moved, ast.Name):
        function = function_at(event.frames[-1].path, event.frames[-1].line)
        bound = [one for one in ast.walk(function or node) if isinstance(one, ast.Assign) and one.value is not node]
        made = [one.value for one in bound if any(ast.unparse(target) == moved.id for target in one.targets)]
    return bool(made) and all(isinstance(one, ast.Call) and _called(one) == "tensor" for one in made)


def _called(node: ast.Call) -> str:
    return str(getattr(node.func, "id", getattr(node.func, "attr", "")))


def node_at(frames: Sequence[CallSite], span: Span | None) -> ast.AST | None:
    """Return the expression that ran at a place. Without a span (before Python 3.11), return the expression only if its
    line has a single candidate."""
    if not frames:
        return None
    nodes = _nodes(frames[-1].path).by_span
    if span is not None:
        return nodes.get(span)
    candidates = [node for place, node in nodes.items() if place[0] == frames[-1].line]
    wanted = [node for node in candidates if isinstance(node, (ast.Subscript, ast.Call))]
    return wanted[0] if len(wanted) == 1 else None


@dataclass(frozen=True, slots=True)
class NamedFunction:
    name: str
    "The qualified name, without `<locals>`."
    node: Function
    owner: str | None
    "The name of the class around the function, or None."


@dataclass(frozen=True, slots=True)
class _Nodes:
    """The nodes of a file. The fields are empty if the file cannot be read or parsed."""

    functions: tuple[NamedFunction, ...] = ()
    by_span: Mapping[Span, ast.expr | ast.stmt] = field(default_factory=dict)
    "Span -> the outermost expression with this span, or the statement if no expression has this span."
    statements: frozenset[Span] = frozenset()


@kept_by_lines
def _nodes(lines: Sequence[str]) -> _Nodes:
    tree = tree_of(lines)
    nodes = tuple(ast.walk(tree))
    found: dict[Span, ast.expr | ast.stmt] = {}
    for node in nodes:
        if isinstance(node, (ast.expr, ast.stmt)):
            place = span_of(node)
            if place not in found or isinstance(found[place], ast.stmt):
                found[place] = node
    statements = (span_of(node) for node in nodes if isinstance(node, ast.stmt))
    return _Nodes(tuple(_functions(tree, (), None)), found, frozenset(statements))


def _functions(node: ast.AST, names: tuple[str, ...], owner: str | None) -> Iterator[NamedFunction]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield NamedFunction(".".join((*names, child.name)), child, owner)
            yield from _functions(child, (*names, child.name), owner)
        elif isinstance(child, ast.ClassDef):
            yield from _functions(child, (*names, child.name), child.name)
        elif not isinstance(child, ast.expr):
            yield from _functions(child, names, owner)


def functions_of(path: str) -> tuple[NamedFunction, ...]:
    """Return the functions of a file, each before the functions inside it."""
    return _nodes(path).functions


def function_at(path: str, line: int) -> Function | None:
    """Return the innermost function of a file around a line, or None."""
    around = (one.node for one in _nodes(path).functions if contains(one.node, line))
    return max(around, key=lambda one: one.lineno, default=None)


def is_expression(path: str, line: int) -> bool:
    """Return whether the statement at this line is an expression, such as a call of a library."""
    span = statement_span(path, line)
    return span is not None and isinstance(_nodes(path).by_span.get(span), ast.expr)


def contains(node: Any, line: int) -> bool:
    """Return whether a statement or an expression contains a line."""
    return bool(node.lineno <= line <= (node.end_lineno or node.lineno))


def span_of(node: ast.expr | ast.stmt) -> Span:
    return node.lineno, node.col_offset, node.end_lineno or 0, node.end_col_offset or 0


def statement_span(path: str, line: int) -> Span | None:
    """Return the span of the smallest statement that contains this line. Further statements that begin on the
    statement's last line are included."""
    best: Span | None = None
    for first, column, last, end in _nodes(path).by_span:
        if first <= line <= last and (best is None or first > best[0]):
            best = (first, column, last, end)
    statements = _nodes(path).statements
    if best not in statements:
        return best
    last, end = max(one[2:] for one in statements if one == best or (one[0] == best[2] and one[:2] > best[2:]))
    return best[0], best[1], last, end
