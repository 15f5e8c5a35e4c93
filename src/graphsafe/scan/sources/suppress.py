"""Comments that suppress findings: `# graphsafe: ignore[GS101, GS104] reason`."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from graphsafe.scan.sources.source import Source

_COMMENT = re.compile(
    r"#\s*graphsafe:\s*ignore(?:\s*\[(?P<codes>[^\w\[\]]*\w[^\[\]]*)\]|(?!\s*(?:[\[({<=:,]|GS\d)|\w))(?P<reason>.*)$",
    re.I,
)
"Matches a suppression. A comment whose codes are not in brackets does not match, because it would suppress every code."
_NOQA = re.compile(r"#\s*noqa:\s*(?P<codes>[A-Z]+\d+(?:[,\s]+[A-Z]+\d+)*)(?P<reason>[^#]*)", re.I)
"""Matches a suppression comment as other linters write it. graphsafe reads such comments but never writes them.

A comment without codes suppresses nothing, because it would hide too much.
"""
_MEANT = re.compile(r"#\s*graphsafe\s*(?::\s*)?(?:ign\w*|noqa|disable\w*|skip|suppress\w*|off)\b.*$", re.I)
"Matches a malformed comment that was meant as a suppression."
_PERHAPS = re.compile(r"#\s*(?:graphsafe|noqa:[^#\n]*GS)", re.I)
"""Matches text that every suppression comment contains. Only files with a match are tokenized, because Python's
tokenizer is slow and most files have at most comments such as `# noqa: E501`."""
_NEXT = re.compile(r"(?:^|\s)#\s")
"Matches the start of another comment on the same line, as in `# graphsafe: ignore[GS101] reason  # noqa`."
_OPENING = frozenset(("FSTRING_START", "TSTRING_START"))
_CLOSING = frozenset(("FSTRING_END", "TSTRING_END"))
_LINE_ENDS = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE)


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment that suppresses findings, or was meant to."""

    line: int
    column: int
    "The column in code points, counted from 1."
    text: str
    codes: tuple[str, ...]
    "The codes in capital letters. Without brackets, the tuple is empty, and the comment covers every code."
    reason: str | None
    understood: bool = True
    "False if the comment is malformed. A malformed comment suppresses nothing."
    first: int = 0
    """The first line to which the comment applies. It also applies to the lines directly above it that cannot contain a
    comment, because they are in a string or end in a backslash."""

    @property
    def names(self) -> tuple[str, ...]:
        """The prefixes of the codes that the comment suppresses. Without brackets, this is a single empty string, which
        stands for all codes."""
        return self.codes or ("",)

    def covering(self, code: str) -> Iterator[tuple[int, str]]:
        """For each name of the comment that is a prefix of `code`, yield the comment's line and the name."""
        return ((self.line, name) for name in self.names if self.understood and code.upper().startswith(name))

    def stands_for(self, first: int, last: int) -> bool:
        """Return whether the comment is on one of these lines. If none of these lines can contain a comment, the
        comment may also be on the next line that can contain one."""
        return first <= self.line <= last or (self.first <= first and last <= self.line)

    def covers(self, code: str) -> bool:
        return any(self.covering(code))


def comments(source: Source) -> list[Comment]:
    """Return the suppressions of a file. A string that looks like a suppression is left out, and so is code in a
    comment."""
    if _PERHAPS.search(source.text) is None:
        return []
    candidates = {number for number, line in enumerate(source.lines, 1) if _PERHAPS.search(line) is not None}
    found = []
    for row, column, text, first in comment_tokens(source.text):
        comment = _comment_or_noqa(text, row, column + 1) if row in candidates else None
        behind_code = comment is not None and source.lines[row - 1][:column].strip()
        if comment is not None and (behind_code or comment.column == column + 1):
            found.append(replace(comment, first=first))
    return found


def _comment_or_noqa(text: str, line: int, column: int) -> Comment | None:
    comment = comment_in(text, line, column)
    if comment is not None or (match := _NOQA.search(text)) is None:
        return comment
    codes = tuple(code for code in re.split(r"[,\s]+", match["codes"].upper()) if code.startswith("GS"))
    if not codes:
        return None
    return Comment(line, column + match.start(), match[0].rstrip(), codes, match["reason"].strip() or None)


def comment_in(text: str, line: int, column: int) -> Comment | None:
    """Return the suppression in a comment, or None. The text may contain several comments, and begins at `column`."""
    match = _COMMENT.search(text)
    if match is None:
        meant = _MEANT.search(text)
        own = "" if meant is None else meant[0].rstrip()
        return Comment(line, column + meant.start(), own, (), None, False) if meant is not None else None
    codes = tuple(code.strip() for code in (match["codes"] or "").upper().split(",") if code.strip())
    reason = _NEXT.split(match["reason"], maxsplit=1)[0]
    own = text[match.start() : match.start("reason") + len(reason)].rstrip()
    return Comment(line, column + match.start(), own, codes, reason.strip() or None)


def comment_tokens(text: str) -> list[tuple[int, int, str, int]]:
    """Return the row, the column and the text of each comment, and the first line to which it applies. A comment also
    applies to the lines directly above it that cannot contain a comment."""
    found = []
    before = 0
    try:
        for token in line_ends(tokenize.generate_tokens(io.StringIO(text + "\n").readline)):
            if token.type == tokenize.COMMENT:
                found.append((*token.start, token.string, before + 1))
            before = token.start[0]
    except (tokenize.TokenError, SyntaxError):
        pass
    return found


def line_ends(tokens: Iterable[tokenize.TokenInfo]) -> Iterator[tokenize.TokenInfo]:
    """Yield the comments, and the ends of the lines that can contain a comment. A line cannot contain a comment at its
    end if the line break is inside a string or follows a backslash."""
    depth = 0
    for token in tokens:
        name = tokenize.tok_name[token.type]
        depth += (name in _OPENING) - (name in _CLOSING)
        if depth == 0 and token.type in _LINE_ENDS:
            yield token
