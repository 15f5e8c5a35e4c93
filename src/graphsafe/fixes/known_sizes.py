"""Passes the output size to operations whose output size depends on data, if the surrounding code shows this size."""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence

from graphsafe.fixes.code import Code, Definition, Fix, argument, dotted, is_literal, is_plain
from graphsafe.fixes.host_numbers import is_size, keeps_meaning
from graphsafe.report.model import Finding

_FEWER_CLASSES = "the number of classes no longer depends on the largest value in the tensor"
_CASTS = ("to", "float", "half", "bfloat16", "type_as", "double")
_MAKES_TABLE = ("empty", "zeros", "ones", "rand", "randn", "full")


def classes(code: Code, finding: Finding) -> Fix | None:
    """Fix `F.one_hot(ids) @ table` to `F.one_hot(ids, table.shape[0]) @ table`.

    This is safe, because the product would fail with any other number of classes. `one_hot(x.argmax(-1))` becomes
    `one_hot(x.argmax(-1), x.shape[-1])`. This is unsafe: the number of classes no longer depends on the largest value
    in the tensor.
    """
    for node in code.calls_at(finding.location):
        if dotted(node.func).rpartition(".")[2] != "one_hot":
            continue
        if len(node.args) != 1 or not {each.arg for each in node.keywords} <= {"num_classes"}:
            return None
        known, risk = _rows(code, node), ""
        if known is None:
            known, risk = _bound(code, node.args[0]), _FEWER_CLASSES
        if known is None:
            return None
        return Fix("pass the number of classes", (code.with_keyword(node, "num_classes", known),), risk)
    return None


def _rows(code: Code, node: ast.expr) -> str | None:
    """If this node is multiplied by a matrix, return the number of rows of the matrix, otherwise None."""
    outer = code.parent(node)
    if isinstance(outer, ast.Attribute) and outer.attr in _CASTS:
        call = code.parent(outer)
        return _rows(code, call) if isinstance(call, ast.Call) and call.func is outer else None
    table: ast.expr | None = None
    if isinstance(outer, ast.BinOp) and isinstance(outer.op, ast.MatMult) and outer.left is node:
        table = outer.right
    elif isinstance(outer, ast.Call) and dotted(outer.func) in ("torch.matmul", "torch.mm") and len(outer.args) == 2:
        table = outer.args[1] if outer.args[0] is node else None
    if table is None or not _is_matrix(code, table):
        return None
    return f"{code.text(table)}.shape[0]"


def _is_matrix(code: Code, table: ast.expr) -> bool:
    """Return whether a node is the weight of an embedding or a layer, or a tensor that the file creates with two
    sizes."""
    name = dotted(table)
    if name.endswith(".weight"):
        return True
    makers = code.assigned(name) if name else []
    for node in ast.walk(code.tree):
        if isinstance(node, ast.Call) and dotted(node.func) == "self.register_buffer" and len(node.args) >= 2:
            first = node.args[0]
            if isinstance(first, ast.Constant) and isinstance(first.value, str) and f"self.{first.value}" == name:
                makers.append(node.args[1])
    return len(makers) == 1 and _has_two_sizes(makers[0])


def _has_two_sizes(maker: ast.expr | None) -> bool:
    if not isinstance(maker, ast.Call):
        return False
    if dotted(maker.func).rpartition(".")[2] == "Parameter" and maker.args:
        return _has_two_sizes(maker.args[0])
    module, _, name = dotted(maker.func).rpartition(".")
    return module == "torch" and name in _MAKES_TABLE[:-1] and len(maker.args) == 2


def _bound(code: Code, ids: ast.expr) -> str | None:
    """Return one more than the largest number that `x.argmax(-1)` or `x % n` can contain, or None for other code."""
    if isinstance(ids, ast.BinOp) and isinstance(ids.op, ast.Mod) and is_plain(ids.right):
        return code.text(ids.right)
    if not isinstance(ids, ast.Call) or not isinstance(ids.func, ast.Attribute):
        return None
    given = [*ids.args, *(each.value for each in ids.keywords if each.arg == "dim")]
    one = len(ids.args) + len(ids.keywords) == 1 and len(given) == 1
    if ids.func.attr == "argmax" and one and is_plain(ids.func.value) and is_literal(given[0]):
        return f"{code.text(ids.func.value)}.shape[{code.text(given[0])}]"
    if ids.func.attr == "remainder" and one and is_plain(given[0]):
        return code.text(given[0])
    return None


def nonzero(code: Code, finding: Finding) -> Fix | None:
    """Fix `mask.nonzero(as_tuple=True)[1].view(b, k)` to `torch.nonzero_static(mask, size=b * k)[:, 1].view(b, k)`.

    With any other number of elements, `view` would fail.
    """
    for node in code.calls_at(finding.location):
        subject = _subject(code, node)
        column = code.parent(node)
        if subject is None or not isinstance(column, ast.Subscript):
            return None
        size = _viewed(code, column)
        picked = _column(code, node, column)
        if size is None or picked is None or not code.imports("torch"):
            return None
        number, risk = size
        text = f"torch.nonzero_static({subject}, size={number})[:, {picked}]"
        return Fix("use nonzero_static with the known size", (code.replaced(column, text),), risk)
    return None


def _subject(code: Code, node: ast.Call) -> str | None:
    """Return the mask of `nonzero`, or of a `where` without values. Return None for other calls."""
    name = dotted(node.func)
    if name in ("torch.nonzero", "torch.where"):
        keywords = {each.arg for each in node.keywords}
        return code.text(node.args[0]) if len(node.args) == 1 and keywords <= {"as_tuple"} else None
    if isinstance(node.func, ast.Attribute) and node.func.attr == "nonzero" and not node.args:
        return code.text(node.func.value)
    return None


def _column(code: Code, node: ast.Call, index: ast.Subscript) -> str | None:
    """Return the dimension whose positions an index selects: `[1]` of a tuple, `[:, 1]` of a tensor."""
    as_tuple = argument(node, 1, "as_tuple")
    is_tuple = dotted(node.func) == "torch.where" or (isinstance(as_tuple, ast.Constant) and as_tuple.value is True)
    picked = index.slice
    if not is_tuple:
        if not isinstance(picked, ast.Tuple) or len(picked.elts) != 2 or ast.unparse(picked.elts[0]) != ":":
            return None
        picked = picked.elts[1]
    return code.text(picked) if is_literal(picked) else None


_Size = tuple[str, str]
"A size as code, and the risk of a fix that passes it, or an empty string."


def _viewed(code: Code, node: ast.expr) -> _Size | None:
    """Return the number of elements that the sizes in a `view` or `reshape` of this node imply.

    Return None if a size is -1. If a size may be -1, the result includes a risk.
    """
    outer = code.parent(node)
    call = code.parent(outer) if isinstance(outer, ast.Attribute) and outer.attr in ("view", "reshape") else None
    if not isinstance(call, ast.Call) or call.func is not outer or call.keywords or len(call.args) < 2:
        return None
    if not all(map(is_plain, call.args)) or any(_is_negative(code, each) for each in call.args):
        return None
    unsure = [each for each in call.args if not is_size(code, each)]
    risk = f"it fails where `{code.text(unsure[0])}` is -1, a size that `view` computes" if unsure else ""
    return _product(code, call.args), risk


def _is_negative(code: Code, node: ast.expr) -> bool:
    """Return whether a node is a negative constant, or a name to which the file assigns -1."""
    if isinstance(node, ast.Constant):
        return type(node.value) is not int or node.value < 0
    if isinstance(node, ast.UnaryOp):
        return True
    name = dotted(node)
    return bool(name) and any(each is not None and ast.unparse(each) == "-1" for each in _given(code, node, name))


def _given(code: Code, node: ast.expr, name: str) -> Sequence[ast.expr | None]:
    """Return the values that are assigned to a name, and its default value if it is a parameter."""
    found = code.assigned(name)
    function = code.function(node)
    if function is not None:
        arguments = function.args
        positional = [*arguments.posonlyargs, *arguments.args]
        defaults = arguments.defaults
        pairs = [*zip(positional[len(positional) - len(defaults) :], defaults, strict=True)]
        pairs += [(key, value) for key, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if value]
        found += [value for parameter, value in pairs if parameter.arg == name]
    return found


def _product(code: Code, parts: Sequence[ast.expr]) -> str:
    if all(isinstance(part, ast.Constant) and type(part.value) is int for part in parts):
        return str(math.prod(int(code.text(part)) for part in parts))
    texts = [f"({code.text(part)})" if isinstance(part, ast.BinOp) else code.text(part) for part in parts]
    return " * ".join(texts)


def repeats(code: Code, finding: Finding) -> Fix | None:
    """Pass `output_size` to `repeat_interleave`, if a `view` of its result shows the size or if the sum of the repeats
    is known."""
    for node in code.calls_at(finding.location):
        if not isinstance(node.func, ast.Attribute) or not _is_repeat(node):
            continue
        is_function = dotted(node.func.value) == "torch"
        counts = argument(node, int(is_function), "repeats")
        keywords = {each.arg for each in node.keywords}
        if counts is None or not keywords <= {"repeats", "dim"}:
            return None
        is_flat = "dim" not in keywords and len(node.args) <= int(is_function) + 1
        size = (_viewed(code, node) if is_flat else None) or _sum(code, counts)
        if size is None:
            return None
        text, risk = size
        return Fix("pass the size of the result", (code.with_keyword(node, "output_size", text),), risk)
    return None


def _sum(code: Code, counts: ast.expr) -> _Size | None:
    """Return the sum of the repeats, if they are a tensor of equal numbers or of literal numbers, otherwise None."""
    if not isinstance(counts, ast.Name):
        text = _sum_of(code, counts)
        return (text, "") if text is not None else None
    function = code.function(counts)
    if function is None:
        return None
    made = [node for node in ast.walk(function) if isinstance(node, ast.Assign)]
    made = [node for node in made if [dotted(each) for each in node.targets] == [counts.id]]
    text = _sum_of(code, made[0].value) if len(made) == 1 else None
    if text is None or code.assigned(counts.id) != [made[0].value]:
        return None
    names = {node.id for node in ast.walk(ast.parse(text, mode="eval")) if isinstance(node, ast.Name)}
    if not all(keeps_meaning(name, function) for name in {counts.id, *names}):
        return None
    is_kept = _only_counts(code, counts.id, function)
    return text, "" if is_kept else f"it fails where other code changes `{counts.id}` after its assignment"


def _only_counts(code: Code, name: str, function: Definition) -> bool:
    """Return whether a function uses a tensor only as the repeats of `repeat_interleave`."""
    used = [node for node in ast.walk(function) if isinstance(node, ast.Name) and node.id == name]
    calls = [code.parent(node) for node in used if isinstance(node.ctx, ast.Load)]
    return all(isinstance(each, ast.Call) and _is_repeat(each) for each in calls)


def _is_repeat(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr == "repeat_interleave"


def _sum_of(code: Code, counts: ast.expr) -> str | None:
    if not isinstance(counts, ast.Call) or any(isinstance(each, ast.Starred) for each in counts.args):
        return None
    name, given = dotted(counts.func), counts.args
    if name == "torch.ones_like" and given and is_plain(given[0]):
        return f"{code.text(given[0])}.numel()"
    if name == "torch.full_like" and len(given) == 2 and all(map(is_plain, given)):
        return f"{code.text(given[0])}.numel() * {_product(code, given[1:])}"
    if name == "torch.full" and len(given) == 2 and isinstance(given[0], ast.Tuple) and len(given[0].elts) == 1:
        factors = [given[0].elts[0], given[1]]
        return _product(code, factors) if all(map(is_plain, factors)) else None
    if name == "torch.tensor" and len(given) == 1 and isinstance(given[0], ast.List):
        values = [each.value for each in given[0].elts if isinstance(each, ast.Constant) and type(each.value) is int]
        return str(sum(values)) if len(values) == len(given[0].elts) else None
    return None
