"""Reads the support for CUDA graphs that the classes of a step declare. Each engine has its own form of declaration.

vLLM's attention metadata builders have `_cudagraph_support`, which is read through `get_cudagraph_support`. SGLang's
attention backends support graphs if they implement the methods that prepare a capture. In the base class of these
backends, the methods raise. Other classes have a flag that is true or false.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import types
from typing import Any

from graphsafe.capture.answers.build import Declaration
from graphsafe.capture.child.state import objects_of
from graphsafe.capture.child.state.objects import attributes_of, bases_of, file_of, namespace_of
from graphsafe.capture.child.targets import Subject
from graphsafe.capture.shared.classify import tree_of
from graphsafe.capture.shared.frames import absolute, is_user_file
from graphsafe.config import SUPPORT_LEVELS as LEVELS
from graphsafe.report.source import file_lines

_VLLM, _VLLM_METHOD = "_cudagraph_support", "get_cudagraph_support"
_SGLANG = ("init_forward_metadata_capture_cuda_graph", "init_cuda_graph_state")
_FLAG = re.compile(r"_?(supports?_cuda_?graphs?|cuda_?graphs?_supported|is_cuda_?graph_(safe|compatible|capturable))")
_REFUSES = "NotImplementedError"


def declaration_of(subject: Subject) -> Declaration | None:
    """Return the lowest declaration among the classes that the step uses. An engine uses the lowest level too."""
    found: list[Declaration] = []
    seen: set[int] = set()
    for value in objects_of(subject):
        kind = type(value)
        if id(kind) not in seen:
            seen.add(id(kind))
            declared = _vllm(kind, value) or _sglang(kind) or _flag(kind)
            found += [] if declared is None else [declared]
    known = [one for one in found if one.level is not None]
    lowest = min(known, key=lambda one: LEVELS.index(one.level or LEVELS[0]), default=None)
    return lowest or next(iter(found), None)


def _vllm(kind: type, value: Any) -> Declaration | None:
    owner, stored = _stored(kind, _VLLM)
    if owner is None:
        return None
    words, where = f"{_VLLM} = {getattr(stored, 'name', stored)} of {kind.__name__}", owner
    asked = _asked(kind, value)
    if asked is not None and _level(asked) != _level(stored):
        stored, words = asked, f"{_VLLM_METHOD}() = {getattr(asked, 'name', asked)} of {kind.__name__}"
        where = _stored(kind, _VLLM_METHOD)[0] or owner
    return Declaration(_level(stored), words, *_place(kind, where, _VLLM if where is owner else _VLLM_METHOD))


def _asked(kind: type, value: Any) -> Any:
    """Call the class method that declares support. Its argument is the configuration that the object `value` stores.
    Return the declared level, or None if there is no such method or the call fails."""
    _, method = _stored(kind, _VLLM_METHOD)
    if not isinstance(method, classmethod):
        return None
    own = attributes_of(value) or {}
    try:
        names = list(inspect.signature(method.__func__).parameters)[1:]
        return method.__func__(kind, *(own.get(name) for name in names))
    except Exception:  # the method needs a configuration that this process does not have
        return None


def _sglang(kind: type) -> Declaration | None:
    if _stored(kind, "init_forward_metadata")[0] is None:
        return None
    for name in _SGLANG:
        owner, method = _stored(kind, name)
        if owner is not None and isinstance(method, types.FunctionType):
            refuses = method.__code__.co_names == (_REFUSES,)
            does = "refuses" if refuses else "implements"
            place = _place(kind, owner, name)
            return Declaration(LEVELS[0 if refuses else 1], f"{kind.__name__} {does} {name}", *place, exact=refuses)
    return None


def _flag(kind: type) -> Declaration | None:
    for base in bases_of(kind):
        for name, stored in namespace_of(base).items():
            if type(name) is str and _FLAG.fullmatch(name) and isinstance(stored, bool):
                level = LEVELS[-1 if stored else 0]
                return Declaration(level, f"{name} = {stored} of {kind.__name__}", *_place(kind, base, name))
    return None


def _stored(kind: type, name: str) -> tuple[type | None, Any]:
    """Return the base class that defines an attribute, and the attribute as that class stores it."""
    for base in bases_of(kind):
        if name in namespace_of(base):
            return base, namespace_of(base)[name]
    return None, None


def _level(value: Any) -> str | None:
    name = getattr(value, "name", value)
    return name if name in LEVELS else None


def _place(kind: type, owner: type, name: str) -> tuple[str | None, int | None]:
    """Return file and line of the attribute's definition. If the user's code does not define the attribute, return file
    and line of the first class in the user's code that inherits it."""
    for base in (owner, *bases_of(kind)):
        file = file_of(sys.modules.get(base.__module__))
        if file is None or not is_user_file(file):
            continue
        line = _line_in(file, base.__qualname__, name if base is owner else "")
        if line is not None:
            return absolute(file), line
    return None, None


def _line_in(file: str, qualname: str, name: str) -> int | None:
    """Return the line that assigns an attribute in a class. If `name` is empty, return the line of the class itself."""
    node: Any = tree_of(file_lines(file))
    for part in (*qualname.replace("<locals>.", "").split("."), *([name] if name else [])):
        node = next((one for one in ast.walk(node) if _defines(one, part)), None)
        if node is None:
            return None
    return int(node.lineno)


def _defines(node: ast.AST, name: str) -> bool:
    if isinstance(node, (ast.Assign, ast.AnnAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return any(isinstance(one, ast.Name) and one.id == name for one in targets)
    return isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == name
