"""Stores strings by key in tables of an SQLite file. Each row is sealed with the user's secret key.

A row with a wrong seal counts as missing, because the row is damaged or comes from somebody else, such as the author of
the scanned repository. A damaged file is replaced if graphsafe made it. Files of other programs, locked files and
read-only files are not changed. In these cases, the scan stores nothing, and reports this in one line.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import sqlite3
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from graphsafe.scan.cache.folder import make_folder

LOCK_SECONDS = 1.0
"The number of seconds that a scan waits, once, for a file that another process is writing."
OWNER = 0x67736663
"The number that graphsafe writes into the header of each of its files (`PRAGMA application_id`)."
_OWNER_AT = 68
"The position of OWNER in the header of an SQLite file."
_MAGIC = b"SQLite format 3\0"
_SEAL_LENGTH = 32
_LOGS = ("-journal", "-wal", "-shm")
"""Suffixes of files that SQLite reads to repair the database beside them.

A journal also names a file that SQLite deletes afterwards. So a journal from somebody else could make SQLite delete any
file of the user.
"""
_COLUMNS = "(key text primary key, data text)"
MAX_TEXT = 64_000_000
"The largest size in bytes of a stored string."
_MAX_SCHEMA = 10_000
"The largest size in bytes of an entry of the schema."
_STEP, _MOST_STEPS = 100_000, 300
"""A connection may run at most `_MOST_STEPS * _STEP` instructions of SQLite, which is ten times as many as a full cache
needs. Without a limit, a search in a forged file might never end."""


class SealedRows:
    """The tables of one file. Processes may share the file, and it may be deleted at any time."""

    def __init__(self, file: Path, tables: Sequence[str], secret: bytes, complain: Callable[[str], None]) -> None:
        """`complain` is called with one line if the file cannot be used."""
        self._file: Path | None = file
        self._tables = tables
        self._schema = frozenset(f"CREATE TABLE {table} {_COLUMNS}".encode() for table in tables)
        self._secret = secret
        self._complain = complain
        self._reading: sqlite3.Connection | None = None
        self._unread = 0
        "The number of bytes that may still be read."

    def text(self, table: str, key: str) -> str | None:
        """Return the string stored under a key, or None."""
        if self._file is None or not os.path.lexists(self._file):
            return None
        try:
            if self._reading is None:
                self._reading = self._open()
                self._unread = os.path.getsize(self._file)
            # Rows are read one by one, because the rows of a forged file may share pages. Each row may then be as long
            # as the file.
            row = self._reading.execute(f"select key, data from {table} where key = ?", [key]).fetchone()
            self._unread -= sum(len(part) for part in row or () if isinstance(part, bytes))
            if self._unread < 0:
                raise sqlite3.DatabaseError("the rows are longer than the file")
        except (sqlite3.Error, UnicodeError, OSError) as error:
            self._give_up(error)
            return None
        return self._opened(table, *row) if row is not None else None

    def write(self, table: str, rows: Iterable[tuple[str, str]], limit: int) -> None:
        """Write strings under their keys. The table then keeps only the `limit` rows that were written last."""
        if self._file is None:
            return
        try:
            make_folder(self._file.parent)
            connection = self._open()
            try:
                with connection:
                    connection.execute("begin immediate")
                    connection.execute(f"pragma application_id = {OWNER}")
                    for name in self._tables:
                        connection.execute(f"create table if not exists {name} {_COLUMNS}")
                    sealed = (
                        (key, self._seal(table, key.encode(), _bytes(text)) + text)
                        for key, text in rows
                        if len(_bytes(text)) < MAX_TEXT
                    )
                    connection.executemany(f"insert or replace into {table} values (?, ?)", sealed)
                    newest = f"select rowid from {table} order by rowid desc limit {limit}"
                    connection.execute(f"delete from {table} where rowid not in ({newest})")
            finally:
                connection.close()
        except (sqlite3.Error, UnicodeError, OSError) as error:
            self._give_up(error)

    def _seal(self, table: str, key: bytes, text: bytes) -> str:
        content = b"\0".join((table.encode(), key, text))
        return hashlib.blake2b(content, key=self._secret, digest_size=_SEAL_LENGTH // 2).hexdigest()

    def _opened(self, table: str, key: object, data: object) -> str | None:
        """Return the string of a row, or None if graphsafe did not write it under this key of this table."""
        if not isinstance(key, bytes) or not isinstance(data, bytes):
            return None
        seal, text = data[:_SEAL_LENGTH], data[_SEAL_LENGTH:]
        if not hmac.compare_digest(seal, self._seal(table, key, text).encode()):
            return None
        return text.decode("utf-8", "surrogatepass")

    def _open(self) -> sqlite3.Connection:
        """Open the database. Raises sqlite3.Error if this fails, or if the database has other tables or views. (Reading
        a view may never end.)"""
        assert self._file is not None
        if os.path.islink(self._file) or (os.path.lexists(self._file) and not os.path.isfile(self._file)):
            raise sqlite3.OperationalError("not a regular file")
        for beside in (f"{self._file}{suffix}" for suffix in _LOGS):
            if os.path.lexists(beside):
                raise sqlite3.OperationalError(f"remove {beside}, which graphsafe did not write")
        # Deeply nested code is read in a second thread (deep_stack.py) while the first thread waits.
        connection = sqlite3.connect(self._file, timeout=LOCK_SECONDS, check_same_thread=False)
        try:
            _limit(connection, _MAX_SCHEMA)
            connection.set_progress_handler(iter([0] * _MOST_STEPS).__next__, _STEP)
            connection.execute("pragma trusted_schema = off")
            connection.execute("pragma cell_size_check = on")
            # graphsafe never writes a log, so another program has written any log that exists. If a crash damages the
            # database, a later scan replaces it.
            connection.execute("pragma journal_mode = memory")
            connection.text_factory = bytes
            few = f"limit {len(self._tables) + 1}"
            schema = {
                sql for (sql,) in connection.execute(f"select sql from sqlite_master where sql is not null {few}")
            }
            if schema and schema != self._schema:
                raise sqlite3.DatabaseError("not a cache, or one of another version")
            _limit(connection, MAX_TEXT + 1000)  # a row also has a key and a seal
        except (sqlite3.Error, UnicodeError):
            connection.close()
            raise
        return connection

    def _give_up(self, error: sqlite3.Error | UnicodeError | OSError) -> None:
        """Remove a damaged file that graphsafe made, so that the next write makes a new one. In any other case, store
        nothing during this scan."""
        if self._reading is not None:
            self._reading.close()
            self._reading = None
        damaged = isinstance(error, (sqlite3.DatabaseError, UnicodeError))
        damaged = damaged and (str(error) == "interrupted" or not isinstance(error, sqlite3.OperationalError))
        file, self._file = self._file, None
        assert file is not None
        if damaged and is_own(file):
            try:
                file.unlink()
                self._file = file
                return
            except OSError as fault:
                error = fault
        why = error.strerror if isinstance(error, OSError) else str(error)
        if damaged:
            why = "it is damaged, or graphsafe did not write it; remove it to have a new one"
        self._complain(f"the cache {file} is not used: {why}")


def is_own(file: Path) -> bool:
    """Return whether a file's header says that graphsafe made it."""
    if file.is_symlink() or not file.is_file():  # opening a pipe would wait for a writer
        return False
    with contextlib.suppress(OSError), open(file, "rb") as opened:
        header = opened.read(_OWNER_AT + 4)
        return header.startswith(_MAGIC) and header[_OWNER_AT:] == OWNER.to_bytes(4, "big")
    return False


def _limit(connection: sqlite3.Connection, length: int) -> None:
    """Limit the size of a row in bytes. Python before 3.11 cannot set this limit, so a row may then be as large as the
    file."""
    if sys.version_info >= (3, 11):
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, length)
        connection.setlimit(sqlite3.SQLITE_LIMIT_SQL_LENGTH, _MAX_SCHEMA)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
