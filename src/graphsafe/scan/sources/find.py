"""Finds the files of a project. Each file is yielded once; ignored and excluded files are left out."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from graphsafe.files import MAX_HANDWRITTEN, read_regular
from graphsafe.ignorefile import IgnorePatterns, read_patterns

ALWAYS_SKIPPED = frozenset(
    (
        ".git .hg .svn .venv venv __pycache__ node_modules .tox .nox .mypy_cache .ruff_cache .pytest_cache "
        ".ipynb_checkpoints site-packages"
    ).split()
)
DOCUMENTS = tuple(".yaml .yml .json .toml .cfg .ini .gin .jsonnet .sh .bash .bat .ps1 .md .rst .txt .ipynb".split())
"Suffixes of configurations, scripts and documents, which may name code."
OUTSIDE = "points outside the project; not read"
"The reason that a report gives with the limit `outside-link`."
Complaint = Callable[[str, str, str], None]
"A function that takes the kind of a limit, its subject, and the reason why the subject was not read."


@dataclass(frozen=True, slots=True)
class Ignore:
    """The patterns of an ignore file, relative to its folder."""

    folder: Path
    patterns: IgnorePatterns

    def match(self, path: Path, is_folder: bool) -> bool | None:
        """Return True if a path is ignored, False if a `!` pattern includes it again, or None if no pattern matches."""
        return self.patterns.match(path.relative_to(self.folder).as_posix(), is_folder)


def files_below(
    top: Path,
    exclude: Sequence[str] = (),
    root: Path | None = None,
    complain: Complaint = lambda kind, what, why: None,
    suffixes: tuple[str, ...] = (".py",),
) -> Iterator[Path]:
    """Yield the files with these suffixes under `top`, sorted within each folder. `exclude` patterns are relative to
    `root` (default `top`).

    A link is followed if it leads to a path below `top` or `root`. `complain` is called for everything that is left out
    although a user may expect it: a link that leads elsewhere, or an unreadable folder or ignore file.
    """
    inside = top.resolve(), (root or top).resolve()
    ignores = [*_outer_ignores(top, complain), *_excludes(exclude, inside[1], inside[0])]
    return _Walk(inside, suffixes, complain).files(top, ignores)


class _Walk:
    """One walk down a tree of folders. It uses no recursion, because a path may have two thousand folders."""

    def __init__(self, inside: tuple[Path, ...], suffixes: tuple[str, ...], complain: Complaint) -> None:
        self._inside = inside
        self._suffixes = suffixes
        self._complain = complain
        self._seen: set[tuple[int, int]] = set()

    def files(self, top: Path, ignores: list[Ignore]) -> Iterator[Path]:
        waiting = [self._entries(top, ignores)]
        while waiting:
            found = next(waiting[-1], None)
            if found is None:
                waiting.pop()
            elif isinstance(found, Path):
                yield found
            else:
                waiting.append(self._entries(*found))

    def _entries(self, folder: Path, ignores: list[Ignore]) -> Iterator[Path | tuple[Path, list[Ignore]]]:
        """Yield the files of a folder, and its subfolders with the ignore patterns that apply in them."""
        try:
            status = folder.stat()
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError as error:
            self._complain("unread-folder", str(folder), error.strerror or type(error).__name__)
            return
        # A link that leads back up would be followed forever, and the files of a folder that is reached twice would be
        # reported twice.
        if (status.st_dev, status.st_ino) in self._seen:
            return
        self._seen.add((status.st_dev, status.st_ino))
        if any(entry.name == ".gitignore" for entry in entries):
            spec = _read_ignore_file(folder / ".gitignore", self._complain)
            if spec is not None:
                ignores = [*ignores, Ignore(folder.resolve(), spec)]
        resolved = folder.resolve() if ignores else folder
        for entry in entries:
            path = folder / entry.name
            try:
                is_folder = entry.is_dir()
                is_file = not is_folder and entry.name.endswith(self._suffixes) and entry.is_file()
            except OSError:
                continue
            if is_folder:
                skipped = entry.name in ALWAYS_SKIPPED or os.path.isfile(path / "pyvenv.cfg")
                if not skipped and not _ignored(resolved / entry.name, True, ignores) and self._belongs(entry, path):
                    yield path, ignores
            elif is_file and not _ignored(resolved / entry.name, False, ignores) and self._belongs(entry, path):
                yield path

    def _belongs(self, entry: os.DirEntry[str], path: Path) -> bool:
        """Return whether a path is inside the scanned folders. A link may lead anywhere on the machine."""
        if not entry.is_symlink():
            return True
        target = Path(os.path.realpath(path))
        if any(target.is_relative_to(folder) for folder in self._inside):
            return True
        self._complain("outside-link", str(path), OUTSIDE)
        return False


def _ignored(path: Path, is_folder: bool, ignores: list[Ignore]) -> bool:
    """Return whether an ignore file ignores a path. Only the last part of the path may be a link."""
    for ignore in reversed(ignores):
        if path.is_relative_to(ignore.folder):
            verdict = ignore.match(path, is_folder)
            if verdict is not None:
                return verdict
    return False


def _outer_ignores(top: Path, complain: Complaint) -> list[Ignore]:
    """Return the .gitignore files between the repository's root and `top`, outermost first.

    A file that ignores `top` itself is left out. So an ignored folder that the user names, such as a library in .venv,
    is read.
    """
    folder = top.resolve()
    above = [folder, *folder.parents]
    repository = next((number for number, parent in enumerate(above) if os.path.lexists(parent / ".git")), 0)
    specs = [(parent, _read_ignore_file(parent / ".gitignore", complain)) for parent in above[repository:0:-1]]
    ignores = [Ignore(parent, spec) for parent, spec in specs if spec is not None]
    return [ignore for ignore in ignores if not _ignores_folder(ignore, folder)]


def _excludes(exclude: Sequence[str], root: Path, top: Path) -> Iterator[Ignore]:
    """Yield the patterns that apply below `top`. A pattern that excludes `top` itself is left out, because the user has
    named that folder."""
    for pattern in exclude:
        ignore = Ignore(root, read_patterns([pattern])[0])
        if top == root or not top.is_relative_to(root) or not _ignores_folder(ignore, top):
            yield ignore


def _ignores_folder(ignore: Ignore, folder: Path) -> bool:
    below = len(folder.parts) - len(ignore.folder.parts)
    return any(ignore.match(path, True) for path in (folder, *folder.parents[: below - 1]))


def _read_ignore_file(path: Path, complain: Complaint) -> IgnorePatterns | None:
    """Return the patterns of an ignore file, or None if it cannot be read. Links are not followed, as in git."""
    if path.is_symlink():
        complain("ignore-file", str(path), "not followed: a link")
        return None
    try:
        lines = read_regular(path, MAX_HANDWRITTEN).decode("utf-8", "replace").splitlines()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None
    except OSError as error:
        complain("ignore-file", str(path), f"not followed: {error.strerror or type(error).__name__}")
        return None
    spec, problems = read_patterns(lines)
    for line, why in problems:
        complain("ignore-file", f"{path}:{line}", why)
    return spec
