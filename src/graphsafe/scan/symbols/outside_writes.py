"""Attributes that code outside of an object's own methods assigns: `MANAGER.size = size`, `self.engine.graph = g`."""

from __future__ import annotations

import re
from collections.abc import Set

from graphsafe.scan.symbols.project_files import Files

_ASSIGNED = re.compile(rb"^[ \t]*(?!self\.\w+[ \t]*=)(?:\w+\.)+(\w+)[ \t]*=(?!=)", re.M)
_TESTS = re.compile(r"(^|/)tests?/|(^|/)test_\w+\.py$")


def is_set_outside(files: Files, name: str) -> bool:
    """Return whether such code assigns an attribute of this name: that its constructor leaves None proves nothing."""

    def read() -> Set[bytes]:
        paths = [path for path in files.paths if not _TESTS.search(path)]
        return {found for path in paths for found in _ASSIGNED.findall(files.data(path) or b"")}

    return name.encode() in files.table("set from outside", read)
