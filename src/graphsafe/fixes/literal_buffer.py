"""Creates a tensor of constants only once, as a buffer of the module."""

from __future__ import annotations

import ast
import itertools
import re

from graphsafe.fixes.code import Code, Definition, Fix, dotted, is_literal
from graphsafe.report.model import Finding

_MAKERS = ("torch.tensor", "torch.as_tensor")
_RISK = "all steps share the buffer, and it follows the module to its dtype"


def hoist(code: Code, finding: Finding) -> Fix | None:
    """Fix `torch.tensor([1, 2], device=d)` in a method to `self.literal`, a new non-persistent buffer.

    The fix is unsafe: all steps share the buffer, which follows the module to other devices and floating dtypes.
    """
    for node in code.at(finding.location):
        found = _constants(code, node)
        owner = code.owner(node)
        start = _after_super(owner) if owner is not None else None
        method = code.function(node)
        if found is None or start is None or method is None or not _is_method(method) or method.name == "__init__":
            continue
        place, made = found
        if "#" in code.text(place):
            return None  # the fix would lose the comment
        outer = code.parent(place)
        name = "literal"
        if isinstance(outer, ast.Assign) and len(outer.targets) == 1 and isinstance(outer.targets[0], ast.Name):
            name = f"{outer.targets[0].id}_literal"
            if _is_changed(method, outer.targets[0].id):
                return None
        name = _unused(code, name)
        me = method.args.args[0].arg
        register = f'self.register_buffer("{name}", {made}, persistent=False)'
        edits = (code.added_below(start, register), code.replaced(place, f"{me}.{name}"))
        return Fix("make it once, in a buffer", tuple(sorted(edits, key=lambda edit: (edit.line, edit.column))), _RISK)
    return None


def _constants(code: Code, node: ast.AST) -> tuple[ast.expr, str] | None:
    """Return the expression that a buffer can replace, and the expression that creates the buffer."""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.List) and _all_literal(node.slice):
        return node.slice, f"torch.tensor({code.text(node.slice)})" if code.imports("torch") else ""
    if not isinstance(node, ast.Call):
        return None
    made = node
    if isinstance(node.func, ast.Attribute) and node.func.attr in ("to", "cuda") and _moves_only(node):
        if not isinstance(node.func.value, ast.Call):
            return None
        made = node.func.value
    dtypes = [each.value for each in made.keywords if each.arg == "dtype"]
    if (
        dotted(made.func) not in _MAKERS
        or len(made.args) != 1
        or not {each.arg for each in made.keywords} <= {"dtype", "device"}
        or not isinstance(made.args[0], (ast.List, ast.Tuple))
        or not _all_literal(made.args[0])
        or any(not dotted(dtype).startswith("torch.") for dtype in dtypes)
    ):
        return None
    from graphsafe.fixes import rewriting

    return node, rewriting.call(code.text(made), lambda call: rewriting.without_keywords(call, "device"))


def _moves_only(node: ast.Call) -> bool:
    given = [*node.args, *(each.value for each in node.keywords)]
    return len(given) <= 1 and all(dotted(each).rpartition(".")[2].endswith(("device", "dev")) for each in given)


def _all_literal(node: ast.expr) -> bool:
    if isinstance(node, (ast.List, ast.Tuple)):
        return bool(node.elts) and all(map(_all_literal, node.elts))
    return is_literal(node)


def _after_super(owner: ast.ClassDef) -> ast.stmt | None:
    """Return the statement of the constructor after which buffers can be registered, or None."""
    for method in owner.body:
        if isinstance(method, ast.FunctionDef) and method.name == "__init__" and _is_method(method):
            for statement in method.body:
                alone = statement.lineno == statement.end_lineno
                if isinstance(statement, ast.Expr) and alone and ast.unparse(statement).endswith(".__init__()"):
                    is_right = method.args.args[0].arg == "self" and _is_last_on_line(method, statement)
                    return statement if is_right else None
    return None


def _is_last_on_line(method: ast.FunctionDef, statement: ast.stmt) -> bool:
    return sum(each.lineno == statement.lineno for each in method.body) == 1 and statement.lineno > method.lineno


def _is_method(function: Definition) -> bool:
    return bool(function.args.args) and not any(
        dotted(each) in ("staticmethod", "classmethod") for each in function.decorator_list
    )


def _is_changed(method: Definition, name: str) -> bool:
    """Return whether a method writes to the tensor that a name refers to."""
    for node in ast.walk(method):
        stores = isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store)
        stores = stores or (
            isinstance(node, ast.Attribute) and re.fullmatch(r"[a-z]\w*[a-z\d]_", node.attr) is not None
        )
        held = node.target if isinstance(node, ast.AugAssign) else getattr(node, "value", None) if stores else None
        if held is not None and dotted(held) == name:
            return True
    return False


def _unused(code: Code, name: str) -> str:
    """Return a name that does not occur in the file.

    The name of a local variable (`c`, `type`) always gets a number, because base classes in other files may have an
    attribute with this name.
    """
    words = set(re.findall(r"\w+", "\n".join(code.lines)))
    numbered = (f"{name}_{number}" for number in itertools.count(2))
    return next(each for each in itertools.chain((name,), numbered) if each not in words)
