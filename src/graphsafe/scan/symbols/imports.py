"""The names that import statements bind, and their meaning."""

from __future__ import annotations

import ast
from collections.abc import Iterator


def import_targets(node: ast.Import | ast.ImportFrom, module: str, is_package: bool) -> Iterator[tuple[str, str]]:
    """Yield the local name and the absolute dotted target of each bound name. The name is `*` for a star import."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            if alias.asname:
                yield alias.asname, alias.name
            else:
                root = alias.name.partition(".")[0]
                yield root, root
        return
    base = node.module or ""
    if node.level:
        parts = module.split(".") if module else []
        keep = len(parts) - node.level + (1 if is_package else 0)
        prefix = ".".join(parts[: max(keep, 0)])
        base = f"{prefix}.{base}".strip(".") if base else prefix
    for alias in node.names:
        if alias.name == "*":
            yield "*", base
        else:
            yield alias.asname or alias.name, f"{base}.{alias.name}" if base else alias.name
