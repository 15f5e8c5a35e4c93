"""Finds inputs that each batch fills only in part, although the results of the graph depend on all rows or columns."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Set

from graphsafe.scan.hazards.graph_syntax import (
    Function,
    Line,
    called_name,
    calls_in,
    own_nodes,
    place,
    viewed,
    written,
)
from graphsafe.scan.hazards.graph_tensors import Tables, targets
from graphsafe.scan.sources.node_memo import inside
from graphsafe.scan.symbols.blocks import matched, parameters
from graphsafe.scan.symbols.index import dotted, elements

_WHOLE_TENSOR = frozenset("mean sum std var norm amax amin".split())
"Reductions that reduce all dimensions unless they are given one."
_ONE_DIMENSION = frozenset("max min softmax log_softmax cumsum cumprod logsumexp median argmax argmin".split())
_SWAPS = frozenset("transpose permute swapaxes movedim T mT".split())


def lines(found: Tables) -> Iterator[Line]:
    """Yield lines that mark the rows of a batch with a constant, if no line clears the marks of earlier batches:
    `self.valid[:n].fill_(1)`."""
    for table in found.all:
        calls = [call for name in table.replaying for call in calls_in(table.functions[name].body)]
        called = {(dotted(call.func) or "").removeprefix("self.") for call in calls}
        for name, function in table.functions.items():
            is_helper = name.rpartition(".")[2] in called and name not in table.preparing
            for _, node in own_nodes(function) if is_helper or name in table.replaying - table.capturing else ():
                target = _marked(node)
                text = place(target.value) if target is not None else None
                # Only the constructor and this line write into the input.
                fills = [one for one in table.filled.get(text or "", ()) if one[0] not in table.preparing]
                if text in table.inputs - table.parts - table.overwritten and len(fills) == 1:
                    assert isinstance(node, (ast.Call, ast.Assign))
                    yield Line(name, "partial-refresh", node, text or "")


def has_end(index: ast.expr) -> bool:
    """Return whether a slice may end before the buffer ends: `[:n]`, `[0, :n]`."""
    slices = (part for part in elements(index) if isinstance(part, ast.Slice))
    return any(part.upper is not None and part.lower is None for part in slices)


def part_filled(node: ast.AST) -> ast.Subscript | None:
    """Return the part of a tensor into which a line writes, if the part may end before the tensor ends."""
    target = written(node) if isinstance(node, (ast.Assign, ast.Call)) else None
    return target if isinstance(target, ast.Subscript) and has_end(target.slice) else None


def _marked(node: ast.AST) -> ast.Subscript | None:
    """Return the part of a tensor that a line fills with a constant other than zero. A variable must end the part."""
    value = node.value if isinstance(node, ast.Assign) else None
    if isinstance(node, ast.Call) and called_name(node) == "fill_":
        value = node.args[0] if node.args else None
    part = part_filled(node) if isinstance(value, ast.Constant) and value.value else None
    ends = [one.upper for one in elements(part.slice) if isinstance(one, ast.Slice)] if part is not None else []
    return part if any(isinstance(end, (ast.Name, ast.Attribute, ast.Call, ast.Subscript)) for end in ends) else None


def depends_on_rest(found: Tables, function: Function, text: str, part: ast.Subscript, filled: Set[str]) -> bool:
    """Return whether the captured module mixes the filled part of an input with the rest of the input. The module's
    code must be in the file. `filled` has the inputs that the same function fills in part. If another function fills
    the input too, the result is False, because that function may clear the rest."""
    for table in found.all:
        elsewhere = {where for where, _ in table.filled.get(text, ())} - table.preparing
        if any(table.functions[where] is not function for where in elsewhere):
            return False
    axis, ends = _axis(part), {_end(one) for one in filled}
    for call in [call for table in found.all for call in table.captured_calls]:
        method = _called(found, call) if axis is not None else None
        if method is not None and axis is not None:
            given = [(_end(viewed(value) or ""), one.arg) for value, one in matched(call, method)]
            names = {name for to, name in given if to == _end(text)}
            others = {one.arg for one in parameters(method)[1:]} - {name for to, name in given if to in ends}
            if names and _mixes(found, method, names, others - names, axis):
                return True
    return False


def _end(text: str) -> str:
    return text.rpartition(".")[2].rpartition("['")[2].removesuffix("']")


def _axis(part: ast.Subscript) -> int | None:
    """Return the dimension along which a line fills only the beginning: 0 for `x[:n]`, -1 for `x[..., :n]`."""
    index = elements(part.slice)
    cut = [i for i, one in enumerate(index) if isinstance(one, ast.Slice) and one.upper is not None]
    if len(cut) != 1:
        return None
    is_last = isinstance(index[0], ast.Constant) and index[0].value is Ellipsis and cut[0] == len(index) - 1
    return -1 if is_last else cut[0]


def _called(found: Tables, call: ast.Call) -> Function | None:
    """Return the `forward` that a captured call runs. Its class is the only one whose objects are assigned to the
    called name or, if the file assigns none, the only module in the file."""
    methods = {name.removesuffix(".forward"): node for name, node, _ in found.functions if name.endswith(".forward")}
    made = {
        cls
        for node in inside(found.tree, ast.Assign)
        if _end(dotted(call.func) or "?") in [_end(place(to) or "") for to in targets(node)]
        for one in inside(node.value, ast.Call)
        if (cls := dotted(one.func)) in methods
    }
    classes = made or {*methods}
    return methods[classes.pop() or ""] if len(classes) == 1 else None


def _mixes(found: Tables, method: Function, names: set[str], others: Set[str], axis: int) -> bool:
    """Return whether a method reduces a tensor along a dimension, applies a convolution with padding to it, or uses it
    as the row numbers of a write. `others` are parameters that may mask the rest of the tensor."""
    nodes = [node for _, node in own_nodes(method)]
    taken, masks = {*names}, {*others}
    for node in sorted((node for node in nodes if isinstance(node, ast.Assign)), key=lambda node: node.lineno):
        read = {one.id for one in inside(node.value, ast.Name)}
        bound = {one.id for to in targets(node) for one in inside(to, ast.Name) if isinstance(one.ctx, ast.Store)}
        taken |= bound if read & taken else set()
        masks |= bound if read & masks else set()
        index = [part for to in targets(node) if isinstance(to, ast.Subscript) for part in elements(to.slice)[:1]]
        if any({one.id for one in inside(part, ast.Name)} & taken for part in index):
            return True
    is_swapped = any(isinstance(node, ast.Attribute) and node.attr in _SWAPS for node in nodes)
    along = {1 if is_swapped else -1} if axis == -1 else {axis}
    for call in [node for node in nodes if isinstance(node, ast.Call)]:
        read = {one.id for one in inside(call, ast.Name)}
        if read & taken and not read & masks and (_reduces(call, along) or _pads(found, method, call, axis)):
            return True
    return False


def _reduces(call: ast.Call, along: Set[int]) -> bool:
    name, is_function = called_name(call), (dotted(call.func) or "").startswith("torch.")
    given = [
        *call.args[is_function : 1 + is_function],
        *(one.value for one in call.keywords if one.arg in ("dim", "axis")),
    ]
    if not given:
        return name in _WHOLE_TENSOR
    return name in _WHOLE_TENSOR | _ONE_DIMENSION and any(ast.unparse(one) in map(str, along) for one in given)


def _pads(found: Tables, method: Function, call: ast.Call, axis: int) -> bool:
    """Return whether a call runs a convolution with padding along the last dimension. The method must not cut off the
    end again: `self.conv(x)[..., :-2]`."""
    made = [node.value for node in inside(found.tree, ast.Assign) if place(call.func) in map(place, node.targets)]
    is_cut = any(isinstance(one, ast.Slice) and isinstance(one.upper, ast.UnaryOp) for one in inside(method, ast.Slice))
    return (
        axis == -1
        and not is_cut
        and any(
            "Conv" in called_name(one) and any(word.arg == "padding" for word in one.keywords)
            for one in made
            if isinstance(one, ast.Call)
        )
    )
