"""Where reading begins: the files that hold a word of a root, as far as they may lead to those to report on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from graphsafe.config import Config
from graphsafe.rulebook import Rulebook
from graphsafe.scan.files import Files
from graphsafe.scan.index import CAPTURE_WORDS
from graphsafe.scan.reach import reaching
from graphsafe.scan.reader import TARGETS

FEW = 10
"With fewer than one file in so many given, it pays to find out which of the others lead to them."


@dataclass(frozen=True, slots=True)
class Starts:
    paths: tuple[str, ...]
    "In the order of reading, those to report on first; `reader.TARGETS` among them stands for configured targets."
    near: frozenset[str] | None
    "Where only a few files are in question: these, and the nearest whose roots lead to them. None: all are."


def find_starts(files: Files, wanted: Sequence[str], config: Config, rulebook: Rulebook) -> Starts:
    """`wanted`: the files to report on. Files that cannot be opened are noted among the problems of `files`."""
    names = sorted({entry.partition("(")[0].rpartition(".")[2] for entry in rulebook.entry_points})
    words = _words(names)
    if len(wanted) * FEW < len(files.names):
        sources = {path: data for path in files.names if (data := files.data(path)) is not None}
        reach = reaching(files, wanted, sources, _definitions(names).search)
        candidates = [path for path in dict.fromkeys([*wanted, *files.paths]) if path in reach.starts]
        near = None if reach.whole else reach.starts
    else:
        sources = {}
        candidates = list(dict.fromkeys([*wanted, *files.paths]))
        near = None
    marked = any(config.hot_paths)
    found: list[str] = []
    for path in candidates:
        data = sources.get(path) or files.data(path)
        if data is not None and (marked or words.search(data)):
            found.append(path)
    return Starts((*found, TARGETS) if config.targets else tuple(found), near)


def _definitions(names: Iterable[str]) -> re.Pattern[bytes]:
    """What defines a root, or as good as: the other words may also stand in a file that only speaks of one."""
    captures = "|".join(map(re.escape, CAPTURE_WORDS))
    return re.compile(rf"def (?:{'|'.join(map(re.escape, ['forward', *names]))})\b|graphsafe: hot|{captures}".encode())


def _words(names: Iterable[str]) -> re.Pattern[bytes]:
    """What a file says that holds a root, a replay, a promise about graphs, or a comment for this tool."""
    plain = [*CAPTURE_WORDS, ".replay(", "graphsafe:", *names]
    return re.compile("|".join(["forward", "cuda_?graph", *map(re.escape, plain)]).encode())
