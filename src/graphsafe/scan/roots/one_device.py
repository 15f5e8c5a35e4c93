"""Finds programs whose files use only the current device. Their captures need no stream of a device (GS601)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from pathlib import Path

from graphsafe.scan.hazards.capture_site import ANOTHER_DEVICE, CURRENT_DEVICE
from graphsafe.scan.symbols.project_files import Files

_CURRENT = re.compile(CURRENT_DEVICE.pattern.encode())
_ANOTHER = re.compile(ANOTHER_DEVICE.pattern.encode() + rb"|add_argument\([^()]{0,80}device")
"Matches code that uses more than one device, or that lets the user choose a device."
_STARTS = b"\nif __name__ =="


def of_current_device(
    packages: Mapping[str, Sequence[str]], capturing: Set[str], files: Files, scripts: Sequence[str]
) -> Iterator[str]:
    """Yield the files of programs that capture and use only the current device.

    A program is a package with the scripts that import it, or the modules of a folder that is no package. A package
    without such a script is a library, whose users may choose any device.
    """
    for package in capturing:
        for paths in [packages[package]] if package else _folders(packages[package]):
            named = re.compile(rb"^\s*(?:from|import) (?:\w+\.)*%s\b" % re.escape(Path(package).name).encode(), re.M)
            users = [one for one in scripts if package and one not in paths and named.search(files.data(one) or b"")]
            program = [files.data(path) or b"" for path in (*paths, *users)]
            if (
                (users or (not package and any(_STARTS in data for data in program)))
                and not any(map(_ANOTHER.search, program))
                and any(map(_CURRENT.search, program))
            ):
                yield from paths


def _folders(paths: Sequence[str]) -> list[list[str]]:
    """Return the files of each folder."""
    found: dict[Path, list[str]] = {}
    for path in paths:
        found.setdefault(Path(path).parent, []).append(path)
    return [*found.values()]
