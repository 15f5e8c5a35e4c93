"""The tensors that captures use under global names, with the lines that make, rebind, fill and read each of them. The
code at module level counts as a function with the name `""`, and the module's functions as its inner functions."""

from __future__ import annotations

import ast

from graphsafe.scan.hazards.graph_syntax import (
    Function,
    captures_in,
    functions_in,
    head,
    is_plain_replay,
    own,
    own_names,
    own_nodes,
    stored_names,
)
from graphsafe.scan.hazards.graph_tensors import GraphTensors, Tables, note_code, note_tables, note_uses


def tables(tree: ast.Module) -> Tables:
    """Return the tables of a file: one for the module's global names if captures use some, and one for each class and
    each function."""
    found = Tables(tree=tree)
    script = _script(tree)
    table = _module_table(script)
    if table.inputs or table.outputs or any(is_plain_replay(node) for _, node in own_nodes(script)):
        found.functions.append(("", script, [table]))
        if table.inputs or table.outputs:
            found.all.append(table)
    note_tables(tree.body, "", [table] if table.blocks else [], found)
    return found


def _script(tree: ast.Module) -> Function:
    """Return the code at module level, with the functions but without the classes, as a function."""
    nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
    body = [statement for statement in tree.body if not isinstance(statement, ast.ClassDef)]
    script = ast.FunctionDef("", nothing, body, [], None, None)
    script.lineno, script.col_offset, script.end_lineno, script.end_col_offset = 1, 0, 1, 0
    return script


def _module_table(script: Function) -> GraphTensors:
    functions = [one for one in functions_in(script) if one is not script]
    shared = {name for function in functions for node in own(function, ast.Global) for name in node.names}
    shared |= stored_names(node for _, node in own_nodes(script))
    found = GraphTensors(script)
    for function in (script, *functions):
        blocks = captures_in(function)
        if not blocks:
            continue
        part = GraphTensors(script)
        note_code(part, script, blocks)
        own_to_function = own_names(function) if function is not script else set()
        for names, noted in ((found.inputs, part.inputs), (found.outputs, part.outputs), (found.updated, part.updated)):
            names |= {name for name in noted if head(name) in shared - own_to_function}
        if part.inputs:
            found.blocks += blocks
            found.captured += part.captured
    if found.inputs or found.outputs:
        note_uses(found, script, "")
        found.preparing.add("")  # the code at module level runs before all calls of the functions
    return found
