"""The folder of a project's cache."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from graphsafe.config import Config, is_project_root
from graphsafe.files import user_cache
from graphsafe.scan.sources.source import digest

FOLDER = ".graphsafe_cache"


def cache_folder(config: Config) -> Path:
    """Return the cache folder. It is in the project's root if there is a project and the folder is writable. Otherwise
    it is in the user's cache."""
    own = config.root / FOLDER
    is_project = config.source is not None or is_project_root(config.root)
    if is_project and not own.is_symlink() and os.access(own if own.exists() else config.root, os.W_OK):
        return own
    return user_cache() / digest(os.fsencode(config.root))


def make_folder(folder: Path) -> None:
    """Make the folder, with a `.gitignore` so that git ignores the folder. An existing folder is left as it is. Raises
    OSError."""
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        return
    with contextlib.suppress(FileExistsError), open(folder / ".gitignore", "x", encoding="utf-8") as ignore:
        ignore.write("*\n")
