"""Reuses results of earlier scans of the project: the whole report if it is still valid, or else the index of each
file.

A stored report is valid only if everything that it depends on is unchanged: every file of the project, the
configuration, the rules, and the versions of the tools that read them. If there is any doubt, the project is scanned
again.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from graphsafe.config import Config
from graphsafe.report.json_form import as_json, parse_reports
from graphsafe.report.model import Confidence, Report
from graphsafe.report.shape import ReportError
from graphsafe.rulebook.book import Rulebook
from graphsafe.scan.cache.contents import Contents
from graphsafe.scan.cache.sealed_files import SealedFiles
from graphsafe.scan.cache.secret_key import secret_key
from graphsafe.scan.sources.source import digest
from graphsafe.scan.symbols.index import ClassFacts, FileIndex, FunctionFacts
from graphsafe.scan.symbols.project_files import Files
from graphsafe.version import __version__

MAX_REPORTS = 16
MAX_INDEXES = 2
"The largest number of indexes that are stored per file of the project. The oldest are removed first."
MAX_VERSIONS = 4
"""Each set of versions of graphsafe, Python and libcst has its own file of indexes. At most this many of these files
are kept. The oldest are removed first."""
LEGAL = ""
"The value stored for a file that is legal Python but has no index."


class ScanCache:
    """The results of earlier scans for the files of one scan."""

    def __init__(
        self,
        folder: Path | None,
        files: Files,
        wanted: Sequence[str],
        config: Config,
        confidence: Confidence,
        rulebook: Rulebook,
        complain: Callable[[str], None],
    ) -> None:
        """`wanted` are the files to report on. Without a `folder`, nothing is read from a cache and nothing is
        stored."""
        self._stored = _stored(folder, complain) if folder is not None else None
        self._files = files
        self._paths = (*files.names, *(files.documents.paths if files.documents is not None else ()))
        self._read = Contents(self._paths if self._stored is not None else ())
        digests = self._read.digests
        self._keys = {
            path: _index_key(path, *files.names[path], digests[path]) for path in digests if path in files.names
        }
        """Path -> the key of the file's index. The key includes the module's name, which changes when a package appears
        or disappears."""
        others = [(path, content) for path, content in digests.items() if path not in files.names]
        tools = _tools()
        contents = (tools, *self._keys.values(), *map(repr, others))
        self._of_report = f"report-{_report_key(wanted, config, confidence, rulebook, contents)}.cache"
        self._of_indexes = f"indexes-{tools}.cache"
        self._texts: dict[str, str] = {}
        "Key of a file's index -> the index in JSON, or LEGAL. The newest are last."

    def report(self) -> Report | None:
        """Return the stored report if it is still valid, otherwise None. A new scan would make the same report, except
        for the time in it."""
        text = self._stored.text(self._of_report) if self._stored is not None else None
        return _report(text) if text is not None else None

    def indexes(self) -> frozenset[str]:
        """Add the known indexes to `files`. Return the files that are known to be legal Python but have no index."""
        legal: set[str] = set()
        texts = self._stored.text(self._of_indexes) if self._stored is not None else None
        self._texts = json.loads(texts) if texts is not None else {}
        for path, key in self._keys.items():
            text = self._texts.get(key)
            if text == LEGAL:
                legal.add(path)
            elif text is not None:
                self._files.indexes.setdefault(path, _index_of(text))
        return frozenset(legal)

    def keep(self, report: Report, checked: Iterable[str]) -> None:
        """Store the results of a scan, unless a file was edited during the scan.

        `checked` are files that are known to be legal Python but have no index.
        """
        files, keys = self._files, self._keys
        if self._stored is None or not keys or not self._read.hold(self._paths):
            return
        new = {
            keys[path]: _compact(index)
            for path, index in files.indexes.items()
            if path in keys and not self._texts.get(keys[path]) and index is not None and path not in files.rewritten
        }
        new.update((keys[path], LEGAL) for path in checked if path in keys and path not in files.indexes)
        if not new.items() <= self._texts.items():
            newest = list({**self._texts, **new}.items())[-MAX_INDEXES * len(keys) :]
            self._stored.write(self._of_indexes, _compact(dict(newest)))
            self._stored.keep_newest("indexes-*.cache", MAX_VERSIONS)
        if not any(limit.kind == "internal-error" for limit in report.limits):
            self._stored.write(self._of_report, _compact(as_json(report)))
            self._stored.keep_newest("report-*.cache", MAX_REPORTS)


def _stored(folder: Path, complain: Callable[[str], None]) -> SealedFiles | None:
    """Return the stored results. Return None if the user's secret key can be neither read nor made."""
    try:
        return SealedFiles(folder, secret_key(), complain)
    except OSError as error:
        complain(f"no cache is used: {error.filename}: {error.strerror}")
        return None


def _tools() -> str:
    """Return a digest of the tools: the scan's own modules (developers change them), Python and libcst."""
    found = hashlib.blake2b(_own_modules(), digest_size=8)
    libcst = sorted(entry.name for folder in sys.path for entry in Path(folder or ".").glob("libcst-*.dist-info"))
    found.update(f"{__version__} {sys.version} {libcst}".encode())
    return found.hexdigest()


@functools.cache
def _own_modules() -> bytes:
    return b"".join(file.read_bytes() for file in sorted(Path(__file__).parents[1].rglob("*.py")))


def _index_key(path: str, module: str, is_package: bool, content: str) -> str:
    """Return the key of a file's index: a digest of all that it depends on. `content` is the file's digest."""
    return digest(f"{path}\0{module}\0{is_package}\0{content}".encode("utf-8", "surrogateescape"))


def _report_key(
    wanted: Sequence[str], config: Config, confidence: Confidence, rulebook: Rulebook, contents: Iterable[str]
) -> str:
    """Return the key of a report, a digest of everything that the report depends on. The report depends on the working
    directory too, because it shows paths relative to this directory."""
    ops = [digest(file.read_bytes()) for file in sorted((rulebook.home / "ops").glob("*.json"))]
    parts = (list(wanted), repr(config), confidence, rulebook.digest, ops, os.getcwd(), sorted(contents))
    return digest(repr(parts).encode("utf-8", "surrogateescape"))


def _report(text: str) -> Report | None:
    try:
        found = parse_reports(text)
    except (ReportError, ValueError, RecursionError):
        return None
    return found if isinstance(found, Report) else None


_NAMES = {kind: [field.name for field in fields(kind)] for kind in (FileIndex, FunctionFacts, ClassFacts)}


def _compact(data: object) -> str:
    """Return JSON without line breaks, which takes a quarter of the time to write."""
    return json.dumps(data, default=_members, separators=(",", ":"))


def _index_of(text: str) -> FileIndex:
    data = json.loads(text)
    functions = {name: FunctionFacts(**_with_tuples(facts)) for name, facts in data.pop("functions").items()}
    classes = {name: ClassFacts(**_with_tuples(facts)) for name, facts in data.pop("classes").items()}
    assigns = {name: [(first, last) for first, last in spans] for name, spans in data.pop("assigns").items()}
    return FileIndex(functions=functions, classes=classes, assigns=assigns, **data)


def _members(facts: FileIndex | FunctionFacts | ClassFacts) -> dict[str, object]:
    return {name: getattr(facts, name) for name in _NAMES[type(facts)]}


def _with_tuples(facts: dict[str, Any]) -> dict[str, Any]:
    """Return the members of an index. JSON has only lists, so each list becomes a tuple where an index has a tuple."""
    for name in ("bases", "decorators"):
        if name in facts:
            facts[name] = tuple(facts[name])
    if "fields" in facts:
        facts["fields"] = {name: (first, last) for name, (first, last) in facts["fields"].items()}
        facts["writers"] = {name: tuple(methods) for name, methods in facts["writers"].items()}
    return facts
