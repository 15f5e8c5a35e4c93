"""Turns strings of a report into HTML. All of them are escaped here. The style sheet is `page.css` beside this
module."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from pathlib import Path

from graphsafe.report.model import Verdict
from graphsafe.report.text import BIDI_CONTROLS, INVISIBLE, without_commands

STYLE = "\n" + Path(__file__).with_name("page.css").read_text(encoding="utf-8")
"The style sheet. It follows the reader's choice of light or dark."
_CODE = re.compile(r"`([^`\n]+)`")
_UNPRINTABLE = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f" + BIDI_CONTROLS + "\ud800-\udfff]")


def escaped_text(text: str) -> str:
    """Return an escaped string, in which characters that change how text is displayed are replaced."""
    return escape(_UNPRINTABLE.sub("\ufffd", text))


def words(text: str) -> str:
    """Return an escaped string. Only the backticks of Markdown are rendered, as code."""
    return _CODE.sub(r"<code>\1</code>", escaped_text(text))


def paragraphs(text: str) -> str:
    """Return an escaped string whose paragraphs begin on new lines."""
    return "<br>".join(words(part) for part in re.split(r"\n\s*\n", text.strip()))


def table(rows: Sequence[Sequence[str]]) -> str:
    """Return a table. The cells are already HTML. A table that is wider than the page scrolls by itself."""
    cells = "".join(f"<tr><td>{'</td><td>'.join(row)}</td></tr>" for row in rows)
    return f'<div class="wide"><table>{cells}</table></div>'


def badge(verdict: Verdict) -> str:
    return f'<strong class="badge {verdict}">{verdict}</strong>'


def page(title: str, styles: str, body: str) -> str:
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escaped_text(title)}</title>\n<style>{styles}</style>\n</head>\n"
        f"<body>\n{without_commands(body, INVISIBLE)}\n</body>\n</html>\n"
    )
