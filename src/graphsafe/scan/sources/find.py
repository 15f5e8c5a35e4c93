"""Which Python files there are: what .gitignore and `exclude` leave, each file once, whatever links lead to it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

ALWAYS_SKIPPED = frozenset(
    (
        ".git",
        ".hg",
        ".svn",
        ".venv",
        "venv",
        "__pycache__",
        "node_modules",
        ".tox",
        ".nox",
        ".mypy_cache",
        ".ruff_cache",
        ".pytest_cache",
        "site-packages",
    )
)


@dataclass(frozen=True, slots=True)
class Ignore:
    """The patterns of one ignore file, relative to its folder."""

    folder: Path
    spec: GitIgnoreSpec

    def match(self, path: Path, is_folder: bool) -> bool | None:
        """True: ignored; False: a `!` pattern brings it back; None: no word on it."""
        text = path.relative_to(self.folder).as_posix() + ("/" if is_folder else "")
        return self.spec.check_file(text).include


def python_files(top: Path, exclude: Sequence[str] = (), root: Path | None = None) -> Iterator[Path]:
    """The `.py` files under `top`, sorted within each folder; `exclude` patterns start at `root` (default `top`)."""
    ignores = _outer_ignores(top)
    if exclude:
        ignores = [*ignores, Ignore((root or top).resolve(), _spec(exclude))]
    seen: set[tuple[int, int]] = set()
    yield from _walk(top, ignores, seen)


def _walk(folder: Path, ignores: list[Ignore], seen: set[tuple[int, int]]) -> Iterator[Path]:
    try:
        status = folder.stat()
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return
    # A link that leads back up would be walked for ever; a folder reached twice would be reported twice.
    if (status.st_dev, status.st_ino) in seen:
        return
    seen.add((status.st_dev, status.st_ino))
    own = folder / ".gitignore"
    if any(entry.name == ".gitignore" for entry in entries) and (spec := _read_spec(own)) is not None:
        ignores = [*ignores, Ignore(folder.resolve(), spec)]
    resolved = folder.resolve() if ignores else folder
    for entry in entries:
        path = folder / entry.name
        try:
            is_folder = entry.is_dir()
            is_file = not is_folder and entry.is_file()
        except OSError:
            continue
        if is_folder:
            skipped = entry.name in ALWAYS_SKIPPED or (path / "pyvenv.cfg").is_file()
            if not skipped and not _ignored(resolved / entry.name, True, ignores):
                yield from _walk(path, ignores, seen)
        elif is_file and entry.name.endswith(".py") and not _ignored(resolved / entry.name, False, ignores):
            yield path


def _ignored(path: Path, is_folder: bool, ignores: list[Ignore]) -> bool:
    """`path`: in a folder without links."""
    for ignore in reversed(ignores):
        if path.is_relative_to(ignore.folder):
            verdict = ignore.match(path, is_folder)
            if verdict is not None:
                return verdict
    return False


def _outer_ignores(top: Path) -> list[Ignore]:
    """The .gitignore files between the repository's root and `top`, outermost first."""
    found: list[Ignore] = []
    folder = top.resolve()
    if (folder / ".git").exists():
        return found
    for parent in folder.parents:
        spec = _read_spec(parent / ".gitignore")
        if spec is not None:
            found.append(Ignore(parent, spec))
        if (parent / ".git").exists():
            return list(reversed(found))
    return []


def _read_spec(path: Path) -> GitIgnoreSpec | None:
    try:
        return _spec(path.read_text(encoding="utf-8", errors="replace").splitlines())
    except OSError:
        return None


def _spec(lines: Sequence[str]) -> GitIgnoreSpec:
    from pathspec import GitIgnoreSpec

    return GitIgnoreSpec.from_lines(lines)
