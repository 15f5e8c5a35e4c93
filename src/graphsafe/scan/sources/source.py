"""The source code of a Python file, and the syntax trees of parts of it.

`ast` parses everything here: it provides positions and takes a tenth of libcst's time (0.12 against 1.22 s per
megabyte). libcst is used only if the file has syntax that is newer than the running Python (newer.py).
"""

from __future__ import annotations

import ast
import codecs
import hashlib
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from graphsafe.files import encoding_of, read_regular
from graphsafe.scan.sources.capture_calls import ENDS, as_blocks

MAX_BYTES = 16_000_000
"""The largest size in bytes of a file that is parsed. Larger files are data written as Python, and `ast` needs about a
hundred times the file's size in memory."""

DIGEST_LENGTH = 32
ENCODING = re.compile(rb"\xef\xbb\xbf|[^\r\n]*coding|[^\r\n]*(?:\r\n|\r|\n)[^\r\n]*coding")
MAX_NAME = 1000
"The largest number of characters of a name. Generated names are shorter."
_LINE_END = re.compile(r"(\r\n|\r|\n)")


class Unreadable(Exception):
    """The file cannot be scanned. The message is one line.

    `line` and `column`, counted from 1, are the position of the error in the file. Both are 1 if the position is not
    known.
    """

    def __init__(self, reason: str, line: int = 1, column: int = 1) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line
        self.column = column


@dataclass(frozen=True)
class Source:
    """A decoded file."""

    path: Path
    text: str

    @cached_property
    def lines(self) -> Sequence[str]:
        """The lines, split as Python splits them: form feeds and other separators do not end a line."""
        return self.text.split("\n")

    def lines_of(self, first: int, last: int) -> Sequence[str]:
        """Return the lines from `first` to `last`, inclusive. Lines are counted from 1."""
        return self.lines[first - 1 : last]

    def slice_tree(self, first: int, last: int) -> ast.stmt:
        """Return the statement on the lines from `first` to `last`, as in `lines_of`. Its nodes have their positions in
        the file."""
        body = "\n".join(self.lines_of(first, last))
        if body[:1] in (" ", "\t", "\f"):
            # An indented statement is legal only inside another one. The blank lines before `if 1:` give all nodes
            # their line in the file. Correcting the lines afterwards would take longer.
            outer = parse("\n" * (first - 2) + "if 1:\n" + body).body[0]
            assert isinstance(outer, ast.If)
            statement = outer.body[0]
        else:
            statement = parse("\n" * (first - 1) + body).body[0]
        return statement

    def column(self, line: int, offset: int) -> int:
        """Return the column of a UTF-8 byte offset. Columns are code points, counted from 1."""
        text = self.lines[line - 1] if line <= len(self.lines) else ""
        if text.isascii():
            return offset + 1
        return len(text.encode("utf-8")[:offset].decode("utf-8", "ignore")) + 1


def digest(data: bytes) -> str:
    """Return a digest of the bytes of a file."""
    return hashlib.blake2b(data, digest_size=DIGEST_LENGTH // 2).hexdigest()


def decode(data: bytes) -> str:
    """Decode a Python file by the rules of PEP 263. Raises Unreadable."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise Unreadable("UTF-16 or UTF-32, which Python does not read: save it as UTF-8")
    try:
        if not ENCODING.match(data):
            # Most files have neither a byte order mark nor a comment that names an encoding.
            return _with_line_feeds(data.decode("utf-8"))
        text = data.decode(encoding_of(data))
    except (SyntaxError, ValueError, LookupError) as error:  # a codec such as `undefined` may raise any of these errors
        if not isinstance(error, UnicodeDecodeError):
            raise Unreadable(str(error)) from error
        given = error.object  # without a byte order mark
        byte = f"byte 0x{given[error.start]:02x}"
        reason = f"{byte} is not {error.encoding.upper()}: save it as UTF-8, or name its encoding in the first line"
        before = _with_line_feeds(given[: error.start].decode(error.encoding, "replace"))
        raise Unreadable(reason, *_end_of(before)) from error
    return _with_line_feeds(text)


def encoded(text: str) -> bytes:
    """Return the bytes that an editor would save for a string. `decode` returns the same string again.

    A string that contains a lone surrogate, or a letter that its declared encoding lacks, has no such bytes. It is
    written as UTF-8.
    """
    data = text.encode("utf-8", "surrogatepass")
    if ENCODING.match(data):
        try:
            return text.encode(encoding_of(data))
        except (SyntaxError, ValueError, LookupError):
            return data
    return data


def editable_lines(data: bytes) -> tuple[str, list[str], list[str]]:
    """Return the encoding, the lines and the line ends (one fewer than lines) of a file that is to be written back.
    Raises Unreadable."""
    try:
        encoding = encoding_of(data)
        parts = _LINE_END.split(data.decode(encoding))
    except (SyntaxError, ValueError, LookupError) as error:
        raise Unreadable(str(error)) from None
    return encoding, parts[::2], parts[1::2]


def _end_of(text: str) -> tuple[int, int]:
    """Return the line and the column after the end of a string, both counted from 1."""
    return text.count("\n") + 1, len(text) - text.rfind("\n")


def _with_line_feeds(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def read_bytes(path: str | Path) -> bytes:
    """Read a file. Raises Unreadable, also if the file is too large or not a regular file."""
    try:
        return read_regular(path, MAX_BYTES)
    except OSError as error:
        raise Unreadable(error.strerror or type(error).__name__) from error


def read(path: Path, data: bytes | None = None) -> Source:
    """Read and decode a file, or decode `data`. Raises Unreadable."""
    if data is None:
        data = read_bytes(path)
    return Source(path, decode(data))


def parse(text: str) -> ast.Module:
    """Parse without warnings. Raises SyntaxError, ValueError, RecursionError or MemoryError, as `ast.parse` does."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = ast.parse(text)
        return as_blocks(tree) if ENDS in text else tree


def _with_usual_names(tree: ast.Module, source: Source) -> ast.Module:
    """Return the tree. Raises Unreadable if the tree contains a name so long that searches in names would take very
    long."""
    if max(map(len, source.lines)) > MAX_NAME:
        for node in ast.walk(tree):
            names = () if isinstance(node, ast.Constant) else (value for _, value in ast.iter_fields(node))
            if any(isinstance(name, str) and len(name) > MAX_NAME for name in names):
                raise Unreadable(f"a name of more than {MAX_NAME} characters", getattr(node, "lineno", 1))
    return tree


def parse_source(source: Source) -> tuple[Source, ast.Module]:
    """Return the source and the tree of a whole file. The source differs from the given one if newer syntax had to be
    rewritten.

    Raises Unreadable if neither `ast` nor libcst can parse the file.
    """
    try:
        return source, _with_usual_names(parse(source.text), source)
    except (RecursionError, MemoryError) as error:
        raise Unreadable("nested too deeply for Python's parser") from error
    except (SyntaxError, ValueError) as error:
        from graphsafe.scan.sources.newer import rewrite, rewrite_beginning

        text = rewrite(source.text)
        if text is not None:
            try:
                tree = parse(text)
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                pass
            else:
                rewritten = Source(source.path, text)
                return rewritten, _with_usual_names(tree, rewritten)
        if isinstance(error, SyntaxError) and error.lineno:
            mistake = _mistake_in(rewrite_beginning(source.text, error.lineno)) or error
            raise Unreadable(mistake.msg, mistake.lineno or 1, max(mistake.offset or 1, 1)) from error
        reason = error.msg if isinstance(error, SyntaxError) else str(error)
        # Python reports no position for a null byte.
        raise Unreadable(reason, *(_end_of(source.text.partition("\0")[0]) if "\0" in source.text else ())) from error


def _mistake_in(text: str | None) -> SyntaxError | None:
    """Return the error that Python finds in code, if the error has a position."""
    try:
        parse(text or "")
    except SyntaxError as error:
        return error if error.lineno else None
    except (ValueError, RecursionError, MemoryError):
        return None
    return None
