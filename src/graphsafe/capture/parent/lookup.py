"""Finds out, without importing a target, whether its file, its module or its factory is missing.

It reports only what is certain. For a module that may define names dynamically, no factory is reported as missing,
because only the import shows these names.
"""

from __future__ import annotations

import ast
import importlib.machinery
import importlib.util
import os
import symtable
import sys
from collections.abc import Iterable
from pathlib import Path

from graphsafe.errors import nearest

_COMPUTING = frozenset({"globals", "locals", "vars", "exec", "eval", "setattr", "modules"})
"A module that uses one of these names may define names dynamically."

_MOST_NAMED = 5
"The largest number of functions that a message lists."


def what_is_missing(target: str, configured: Iterable[str] = ()) -> str | None:
    """Return one line with the reason why `target` cannot work. Return None if no reason is certain without an
    import."""
    where, _, name = target.rpartition(":")
    if not where or not name:
        return _without_name(target, configured)
    if where.endswith(".py"):
        path = Path(where)
        if not path.is_file():
            # All names end in `.py`, so even quite different ones are similar.
            hint = nearest(path.name, sorted(one.name for one in path.parent.glob("*.py")), cutoff=0.8)
            return f"no such file: {where}{hint}"
        return _without_factory(path, where, name)
    if where.endswith(".ipynb"):
        return f"{where}: a notebook is not imported; call graphsafe.capture(fn, args) in one of its cells"
    try:
        return _module_without_factory(where, name)
    except (ImportError, ValueError, AttributeError):
        return None


def _without_name(target: str, configured: Iterable[str]) -> str:
    """Return a message for a target that names no factory and is not a configured name. The message contains a guess of
    the intended name."""
    path = Path(target.removesuffix(":"))
    if path.suffix == ".py" and path.is_file():
        return f"name the factory too: {path}:FACTORY{_functions_of(path)}"
    hint = nearest(target, configured)
    return f"no such target is configured{hint}; expected FILE.py:FACTORY, package.module:FACTORY, or a target's name"


def _module_without_factory(module: str, name: str) -> str | None:
    """Return the reason why the factory is not in its module, or None. No parent package is imported."""
    path: list[str] | None = [os.getcwd(), *sys.path]
    parts = module.split(".")
    for depth, part in enumerate(parts):
        full = ".".join(parts[: depth + 1])
        spec = importlib.machinery.PathFinder.find_spec(full, path)
        if spec is None:
            known_otherwise = depth > 0 or importlib.util.find_spec(part) is not None
            return None if known_otherwise else f"cannot import {module}: ModuleNotFoundError: No module named {full!r}"
        path = None if spec.submodule_search_locations is None else list(spec.submodule_search_locations)
    if path is not None or spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return None
    return _without_factory(Path(spec.origin), module, name)


def _without_factory(path: Path, where: str, name: str) -> str | None:
    try:
        text = importlib.util.decode_source(path.read_bytes())
        tree, names = ast.parse(text), _bound(text)
    except SyntaxError as error:
        return f"cannot import {where}: SyntaxError: {error.msg} ({where}:{error.lineno})" if error.lineno else None
    except (OSError, ValueError, RecursionError, MemoryError):
        return None
    first = name.partition(".")[0]
    if names & {first, "__getattr__"} or not first.isidentifier() or any(map(_computes_names, ast.walk(tree))):
        return None
    modules = {alias.asname or alias.name for node in tree.body if isinstance(node, ast.Import) for alias in node.names}
    hint = nearest(first, sorted(names - modules)) or _functions(tree)
    return f"{where} has no {first}{hint}"


def _functions_of(path: Path) -> str:
    try:
        return _functions(ast.parse(path.read_bytes()))
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return ""


def _functions(tree: ast.Module) -> str:
    """Return the public functions of a module as part of a message. This part is used if the name of the target
    resembles none of these functions."""
    names = [node.name for node in tree.body if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")]
    more = ", …" if len(names) > _MOST_NAMED else ""
    return f" (its functions: {', '.join(names[:_MOST_NAMED])}{more})" if names else ""


def _computes_names(node: ast.AST) -> bool:
    """Return whether a module with this node may have names that do not appear in its statements."""
    if isinstance(node, ast.ImportFrom):
        return node.names[0].name == "*"
    if isinstance(node, ast.Attribute):
        return node.attr in ("globals", "__dict__") or ast.unparse(node) == "sys.modules"
    return isinstance(node, ast.Global) or (isinstance(node, ast.Name) and node.id in _COMPUTING)


def _bound(text: str) -> set[str]:
    """Return the names that statements at module level bind, in any branch. Raises SyntaxError."""
    symbols = symtable.symtable(text, "", "exec").get_symbols()
    # `:=` in a comprehension declares its name as global.
    return {one.get_name() for one in symbols if one.is_assigned() or one.is_imported() or one.is_declared_global()}
