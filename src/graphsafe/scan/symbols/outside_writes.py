"""Attributes that code outside of an object's own methods assigns: `MANAGER.size = size`, `self.engine.graph = graph`."""

from __future__ import annotations

import re
from collections.abc import Set

from graphsafe.scan.symbols.project_files import Files

_ASSIGNED = re.compile(rb"^[ \t]*(?!self\.\w+[ \t]*=)(?:\w+\.)+(\w+)[ \t]*=(?!=)", re.M)
_TESTS = re.compile(r"(^|/)tests?/|(^|/)test_\w+\.py$")


def set_from_outside(files: Files) -> Set[bytes]:
    """Return the names of these attributes; a value None in the constructor is not their last."""

    def read() -> Set[bytes]:
        return {
            name
            for path in files.paths
            if not _TESTS.search(path)
            for name in _ASSIGNED.findall(files.data(path) or b"")
        }

    return files.table("set from outside", read)
