"""Print which aten operations came and went between torch versions, and which of them the op table does not know.

    python scripts/aten_by_version.py PYTHON...     # interpreters, each with another torch, the oldest first

The simulated device cannot vouch for a step that calls an operation which the table does not know.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from graphsafe.optable import OpTable

TABLE = Path(__file__).resolve().parent.parent / "rules" / "ops"
LIST = """
import json, torch
schemas = (schema for schema in torch._C._jit_get_all_schemas() if schema.name.startswith("aten::"))
print(json.dumps([torch.__version__.split("+")[0], [(schema.name, schema.overload_name) for schema in schemas]]))
"""
Overloads = set[tuple[str, str]]


def overloads(python: str) -> tuple[str, Overloads]:
    """Return an interpreter's version of torch, and each aten operation with its overload."""
    done = subprocess.run([python, "-c", LIST], capture_output=True, text=True, check=True)
    version, found = json.loads(done.stdout)
    return version, {(name, overload) for name, overload in found}


def names(found: Overloads) -> str:
    short = sorted({name.removeprefix("aten::") for name, _ in found})
    return ", ".join(f"`{name}`" for name in short) or "none"


def main() -> None:
    table = OpTable(TABLE)
    before: Overloads | None = None
    print("| torch | overloads | new operations | gone | not in the table |")
    print("|---|---|---|---|---|")
    for version, found in map(overloads, sys.argv[1:]):
        known, now = {name for name, _ in before or ()}, {name for name, _ in found}
        new = {one for one in found if before is not None and one[0] not in known}
        gone = {one for one in before or () if one[0] not in now}
        unknown = {one for one in found if not table.knows_aten(*one)}
        print(f"| {version} | {len(found)} | {names(new)} | {names(gone)} | {names(unknown)} |")
        before = found


if __name__ == "__main__":
    main()
