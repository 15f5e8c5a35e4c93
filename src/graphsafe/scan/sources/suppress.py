"""`# graphsafe: ignore[GS101, GS104] reason`: which findings a comment answers for."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass

from graphsafe.scan.sources.source import Source

_COMMENT = re.compile(r"#\s*graphsafe:\s*ignore(?:\[(?P<codes>[^\]]*)\])?(?P<reason>.*)$")
_MEANT = re.compile(r"#\s*graphsafe\s*:?\s*(?:ign\w*|noqa|disable\w*|skip|suppress\w*|off)\b.*$", re.I)
"What was meant for a suppression and is none."
_NEXT = re.compile(r"(?:^|\s)#\s")
"Where another comment begins on the same line, as in `# graphsafe: ignore[GS101] reason  # noqa`."


@dataclass(frozen=True, slots=True)
class Comment:
    line: int
    column: int
    "From 1, in code points."
    text: str
    codes: tuple[str, ...]
    "Empty where the brackets are missing: every code."
    reason: str | None
    understood: bool = True
    "False for another form than `ignore[...]`: it covers nothing."

    @property
    def names(self) -> tuple[str, ...]:
        """The beginnings of codes that it covers; the empty one, which covers all, where the brackets are missing."""
        return self.codes or ("",)

    def covering(self, code: str) -> Iterator[tuple[int, str]]:
        """Its line and each of its names that a code begins with."""
        return ((self.line, name) for name in self.names if self.understood and code.startswith(name))

    def covers(self, code: str) -> bool:
        return any(self.covering(code))


def comments(source: Source) -> list[Comment]:
    """The suppressions of a file. A string that looks like one is none, and neither is a line of code in a comment."""
    if "graphsafe" not in source.text:
        return []
    lines = enumerate(source.lines, 1)
    candidates = {number for number, line in lines if _COMMENT.search(line) or _MEANT.search(line)}
    if not candidates:
        return []
    found = []
    for row, column, text in _comment_tokens(source.text):
        comment = comment_in(text, row, column + 1) if row in candidates else None
        behind_code = comment is not None and source.lines[row - 1][:column].strip()
        if comment is not None and (behind_code or comment.column == column + 1):
            found.append(comment)
    return found


def comment_in(text: str, line: int, column: int) -> Comment | None:
    """The suppression in a comment, perhaps among other comments; `column` is where `text` begins."""
    match = _COMMENT.search(text)
    if match is None:
        meant = _MEANT.search(text)
        own = "" if meant is None else meant[0].rstrip()
        return Comment(line, column + meant.start(), own, (), None, False) if meant is not None else None
    codes = tuple(code.strip() for code in (match["codes"] or "").split(",") if code.strip())
    reason = _NEXT.split(match["reason"], maxsplit=1)[0]
    own = text[match.start() : match.start("reason") + len(reason)].rstrip()
    return Comment(line, column + match.start(), own, codes, reason.strip() or None)


def _comment_tokens(text: str) -> list[tuple[int, int, str]]:
    tokens = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(text + "\n").readline):
            if token.type == tokenize.COMMENT:
                tokens.append((token.start[0], token.start[1], token.string))
    except (tokenize.TokenError, SyntaxError):
        pass
    return tokens
