"""Finds reads of an attribute by code that is in no graph."""

from __future__ import annotations

import ast
from collections.abc import Callable

from graphsafe.scan.hazards.graph_syntax import own_nodes
from graphsafe.scan.state.provenance import CONSTRUCTORS
from graphsafe.scan.symbols.project import Project


def is_read_outside(project: Project, key: str, is_held: Callable[[str, int], bool]) -> bool:
    """Return whether code outside the graphs reads the attribute `key`, and no such code assigns it.

    A read on an object of unknown class is included if only one class of the project assigns an attribute with that
    name.
    """
    owner, _, name = key.rpartition(".")
    found = False
    for path in project.files.names:
        file = project.files.index(path) if name.encode() in (project.files.data(path) or b"") else None
        if file is None:
            continue
        if any(name in cls.writers and f"{path}::{cls.name}" != owner for cls in file.classes.values()):
            return False
        for facts in file.functions.values():
            node = project.function_node(f"{path}::{facts.name}")
            if node is None or facts.name.endswith(CONSTRUCTORS):
                continue
            for _, inner in own_nodes(node):
                if isinstance(inner, ast.Attribute) and inner.attr == name:
                    if is_held(f"{path}::{facts.name}", inner.lineno):
                        continue
                    if isinstance(inner.ctx, ast.Store):
                        return False
                    found = True
    return found
