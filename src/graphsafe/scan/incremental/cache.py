"""What an earlier scan found, kept by content: whole reports, and what each file defines.

A report is found again only if nothing that it depends on has changed: every file of the project, the configuration,
the rules, and the versions of what read them. Any doubt means: scan. A row that does not match its checksum is not
there, a file that is no database of ours is replaced, and one that is locked or cannot be written is left alone for the
rest of the scan.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sqlite3
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import chain
from pathlib import Path
from typing import Any

import graphsafe
from graphsafe.config import Config, is_project_root
from graphsafe.files import user_cache
from graphsafe.report.json_form import ReportError, as_json, parse_reports
from graphsafe.report.model import Confidence, Report
from graphsafe.rulebook import Rulebook
from graphsafe.scan.sources.source import DIGEST_LENGTH, digest
from graphsafe.scan.symbols.index import ClassFacts, FileIndex, FunctionFacts

FOLDER = ".graphsafe_cache"
MAX_REPORTS = 16
MAX_SNAPSHOTS = 2
MAX_PARTS = 8
"Of as many settings; each has readings of about twenty bytes for each line of the project."
MAX_INDEXES = 50_000
"Of about 2 kB each; the oldest go first."
MAX_VERSIONS = 4
"Of graphsafe, Python and libcst: each has a file of its own; the oldest go first."
LOCK_SECONDS = 1.0
"How long a database that another process writes is waited for, once a scan."
LEGAL = ""
"In place of an index."

_TABLES = ("reports", "indexes", "snapshots", "readings")
_COLUMNS = "(key text primary key, data text)"
_SCHEMA = frozenset(f"CREATE TABLE {table} {_COLUMNS}".encode() for table in _TABLES)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """When the readings that are kept held."""

    readings: str
    "Their name."
    versions: Mapping[str, str]
    "Path -> the key of its index, for every file of the project that can be read."


class Cache:
    """Safe to delete at any time and to share between processes; `folder` None keeps nothing."""

    def __init__(self, folder: Path | None, complain: Callable[[str], None] = lambda line: None) -> None:
        """`complain` takes one line if the cache cannot be used."""
        self._file = folder / f"scan-{_tools()}.db" if folder is not None else None
        self._complain = complain
        self._reading: sqlite3.Connection | None = None

    def report(self, key: str) -> Report | None:
        return _report(self._report_text(key))

    def keep_report(self, key: str, report: Report) -> None:
        # Without line breaks it is written in a quarter of the time.
        self._write("reports", [(key, json.dumps(as_json(report), separators=(",", ":")))], MAX_REPORTS)

    def snapshot(self, settings: str) -> Snapshot | None:
        """The last one under these settings."""
        for _, text in self._select("select key, data from snapshots where key = ?", [settings]):
            return _snapshot(text)
        return None

    def keep_snapshot(self, settings: str, snapshot: Snapshot) -> None:
        """The readings of that name hold for these versions, too."""
        text = json.dumps((snapshot.readings, snapshot.versions), separators=(",", ":"))
        self._write("snapshots", [(settings, text)], MAX_SNAPSHOTS)

    def readings(self, snapshot: Snapshot, part: str) -> str:
        """One part of them; empty where it is missing."""
        found = self._select("select key, data from readings where key = ?", [f"{snapshot.readings} {part}"])
        return found[0][1] if found else ""

    def keep_readings(self, settings: str, versions: Mapping[str, str], parts: Iterable[tuple[str, str]]) -> None:
        """`parts`: each with its name. They take the place of those of the last snapshot."""
        before, name = self.snapshot(settings), os.urandom(8).hex()
        rows = ((f"{name} {part}", text) for part, text in parts)
        self._write("readings", rows, MAX_SNAPSHOTS * MAX_PARTS, without=before.readings if before is not None else "")
        self.keep_snapshot(settings, Snapshot(name, versions))

    def index(self, path: str, key: str) -> FileIndex | None:
        for _, data in self._select("select key, data from indexes where key = ?", [key]):
            return _index(path, data) if data != LEGAL else None
        return None

    def indexes(self, keys: Mapping[str, str]) -> tuple[dict[str, FileIndex], frozenset[str]]:
        """The indexes that are known, by path, and the files known to be legal, no more; `keys`: path -> key."""
        known = dict(self._select("select key, data from indexes", ()))
        found: dict[str, FileIndex] = {}
        legal: set[str] = set()
        for path, key in keys.items():
            if known.get(key) == LEGAL:
                legal.add(path)
            elif key in known:
                index = _index(path, known[key])
                if index is not None:
                    found[path] = index
        return found, frozenset(legal)

    def keep_indexes(self, indexes: Mapping[str, FileIndex], legal: Iterable[str]) -> None:
        """`indexes` by key; `legal` are the keys of files that can be read and were not."""
        others = [*legal]
        if indexes or others:
            made = ((key, _text(index)) for key, index in indexes.items())
            self._write("indexes", chain(made, ((key, LEGAL) for key in others)), MAX_INDEXES)

    def _report_text(self, key: str) -> str:
        found = self._select("select key, data from reports where key = ?", [key])
        return found[0][1] if found else ""

    # the database

    def _select(self, query: str, values: Sequence[str]) -> list[tuple[str, str]]:
        """The keys and texts that a query for both finds, but for rows that do not match their checksums."""
        if self._file is None or not os.path.lexists(self._file):
            return []
        try:
            if self._reading is None:
                self._reading = self._open()
            found = self._reading.execute(query, values).fetchall()
        except (sqlite3.Error, UnicodeError) as error:
            self._give_up(error)
            return []
        return [
            (str(key, "ascii", "replace"), text) for key, data in found if (text := _unsealed(key, data)) is not None
        ]

    def _write(self, table: str, rows: Iterable[tuple[str, str]], limit: int, without: str = "") -> None:
        """`without`: with which word the keys begin of rows that go."""
        if self._file is None:
            return
        try:
            make_folder(self._file.parent)
            connection = self._open()
            try:
                with connection:
                    connection.execute("begin immediate")
                    for name in _TABLES:
                        connection.execute(f"create table if not exists {name} {_COLUMNS}")
                    if without:
                        connection.execute(f"delete from {table} where key like ?", [f"{without} %"])
                    sealed = ((key, _sealed(key, text)) for key, text in rows)
                    connection.executemany(f"insert or replace into {table} values (?, ?)", sealed)
                    newest = f"select rowid from {table} order by rowid desc limit {limit}"
                    connection.execute(f"delete from {table} where rowid not in ({newest})")
            finally:
                connection.close()
            _forget_old(self._file)
        except (sqlite3.Error, UnicodeError, OSError) as error:
            self._give_up(error)

    def _open(self) -> sqlite3.Connection:
        """Raises sqlite3.Error, also for a database with more in it (a view may never end) or less."""
        assert self._file is not None
        if os.path.lexists(self._file) and not os.path.isfile(self._file):
            raise sqlite3.OperationalError("not a regular file")
        # Code that nests deeply is read in a thread of its own (deep_stack.py), while the first one waits.
        connection = sqlite3.connect(self._file, timeout=LOCK_SECONDS, check_same_thread=False)
        try:
            connection.text_factory = bytes
            schema = {sql for (sql,) in connection.execute("select sql from sqlite_master where sql is not null")}
            if schema and schema != _SCHEMA:
                raise sqlite3.DatabaseError("not a cache, or one of another version")
        except (sqlite3.Error, UnicodeError):
            connection.close()
            raise
        return connection

    def _give_up(self, error: sqlite3.Error | UnicodeError | OSError) -> None:
        """Nobody can use a damaged file, and the next write makes a new one; what else is wrong lasts for this scan."""
        if self._reading is not None:
            self._reading.close()
            self._reading = None
        damaged = isinstance(error, (sqlite3.DatabaseError, UnicodeError))
        damaged = damaged and not isinstance(error, sqlite3.OperationalError)
        file, self._file = self._file, None
        if damaged and file is not None:
            try:
                file.unlink()
                self._file = file
                return
            except OSError as fault:
                error = fault
        why = error.strerror if isinstance(error, OSError) else str(error)
        self._complain(f"the cache {file} is not used: {why}")


def cache_folder(config: Config) -> Path:
    """In the project where there is one and it can be written to, else in the user's cache."""
    own = config.root / FOLDER
    is_project = config.source is not None or is_project_root(config.root)
    if is_project and not own.is_symlink() and os.access(own if own.exists() else config.root, os.W_OK):
        return own
    return user_cache() / digest(os.fsencode(config.root))


def make_folder(folder: Path) -> None:
    """The folder, with an ignore file of its own, so that no project has to know of it. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError), open(folder / ".gitignore", "x", encoding="utf-8") as ignore:
        ignore.write("*\n")


def _forget_old(own: Path) -> None:
    """Remove the files of other versions, but for those written last."""
    with contextlib.suppress(OSError):
        others = [file for file in own.parent.glob("scan-*.db") if file != own]
        for old in sorted(others, key=lambda file: -file.stat().st_mtime)[MAX_VERSIONS - 1 :]:
            old.unlink()


def _sealed(key: str, text: str) -> str:
    return digest(f"{key}\0{text}".encode("utf-8", "surrogatepass")) + text


def _unsealed(key: object, data: object) -> str | None:
    """The text of a row; None if it is not what was written under this key."""
    if not isinstance(key, bytes) or not isinstance(data, bytes):
        return None
    checksum, text = data[:DIGEST_LENGTH], data[DIGEST_LENGTH:]
    if checksum != digest(key + b"\0" + text).encode():
        return None
    return text.decode("utf-8", "surrogatepass")


def index_key(path: str, module: str, is_package: bool, content: str) -> str:
    """What an index is made of; `content` is the file's digest."""
    return digest(f"{path}\0{module}\0{is_package}\0{content}".encode("utf-8", "surrogateescape"))


def settings_key(given: Sequence[str], config: Config, confidence: Confidence, rulebook: Rulebook) -> str:
    """All that a report depends on but the files' contents. The working directory counts: paths are shown from it."""
    ops = [digest(file.read_bytes()) for file in sorted((rulebook.home / "ops").glob("*.json"))]
    parts = (list(given), repr(config), confidence, rulebook.digest, ops, os.getcwd())
    return digest(repr(parts).encode("utf-8", "surrogateescape"))


def report_key(settings: str, versions: Mapping[str, str]) -> str:
    """`versions`: of every file of the project."""
    return digest(repr((settings, sorted(versions.items()))).encode("utf-8", "surrogateescape"))


def _tools() -> str:
    """What reads the code: graphsafe's own modules (a developer changes them between versions), Python, libcst."""
    found = hashlib.blake2b(digest_size=8)
    for file in sorted(Path(__file__).parents[1].rglob("*.py")):
        found.update(file.read_bytes())
    libcst = sorted(entry.name for folder in sys.path for entry in Path(folder or ".").glob("libcst-*.dist-info"))
    found.update(f"{graphsafe.__version__} {sys.version} {libcst}".encode())
    return found.hexdigest()


def _report(text: str) -> Report | None:
    try:
        found = parse_reports(text)
    except (ReportError, ValueError, RecursionError):
        return None
    return found if isinstance(found, Report) else None


def _snapshot(text: str) -> Snapshot | None:
    try:
        name, versions = json.loads(text)
        return Snapshot(str(name), dict(versions))
    except (ValueError, TypeError, RecursionError):
        return None


def _text(index: FileIndex) -> str:
    return json.dumps(index, default=_members, separators=(",", ":"))


_NAMES = {kind: [field.name for field in fields(kind)] for kind in (FileIndex, FunctionFacts, ClassFacts)}


def _members(facts: FileIndex | FunctionFacts | ClassFacts) -> dict[str, object]:
    return {name: getattr(facts, name) for name in _NAMES[type(facts)]}


def _index(path: str, text: str) -> FileIndex | None:
    try:
        data = json.loads(text)
        functions = {name: FunctionFacts(**_tuples(facts)) for name, facts in data.pop("functions").items()}
        classes = {name: ClassFacts(**_tuples(facts)) for name, facts in data.pop("classes").items()}
        assigns = {name: [(first, last) for first, last in spans] for name, spans in data.pop("assigns").items()}
        index = FileIndex(functions=functions, classes=classes, assigns=assigns, **data)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    return index if index.path == path else None


def _tuples(facts: dict[str, Any]) -> dict[str, Any]:
    """JSON's lists, where the index has tuples."""
    for name in ("bases", "decorators"):
        if name in facts:
            facts[name] = tuple(facts[name])
    if "fields" in facts:
        facts["fields"] = {name: (first, last) for name, (first, last) in facts["fields"].items()}
        facts["writers"] = {name: tuple(methods) for name, methods in facts["writers"].items()}
    else:
        facts["by_type"] = tuple((type_, name) for type_, name in facts["by_type"])
    return facts
