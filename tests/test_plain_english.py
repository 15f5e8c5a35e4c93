"""In docstrings, comments and pages, no sentence has a question word as its subject. Docstrings name the thing that
they describe."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest
from own_source import children, modules, parsed, texts

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    [
        *(ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "rules").glob("*.md"),
    ]
)

_RIDDLE = re.compile(r"(?:^|[.;:] )(?:What|Who|Whoever|Whatever|Those|That)\b[^.?]*(?:[.;:]|$)")
"Matches a sentence whose subject is a question word or a pronoun such as `those`. Questions are not matched."
_FRAGMENT = re.compile(r"(?:None|Empty|True|False) (?:where|for|if)\b|Where\b|Whether\b|That\b|(?:Of|As|By|From) \w")
"Matches the beginning of a docstring that leaves out the thing which it describes."


def said(text: str, tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each docstring and comment of a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, " ".join(node.value.value.split())
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string.lstrip("# ")


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of the docstrings of a module's functions. Properties are left out, because they are
    named like values."""
    left: list[ast.AST] = [tree]
    while left:
        node = left.pop()
        left += children(node)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            text = ast.get_docstring(node)
            if text and not any("property" in ast.unparse(one) for one in node.decorator_list):
                yield node.lineno, " ".join(text.split())


def sentences(path: Path) -> Iterator[str]:
    """Yield the paragraphs of a page without code, tables and headings."""
    content = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
    for paragraph in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )", content):
        text = " ".join(line for line in paragraph.splitlines() if not line.lstrip().startswith(("#", "|")))
        yield re.sub(r"^\s*(?:[-*]|\d+\.)\s+|\*\*", "", " ".join(text.split()))


def test_the_files_that_pages_about_the_source_name_exist() -> None:
    """A path may be given in part: `child/server.py`, `child/probes/{step,horizon}.py`, `scan/`."""
    tops = ("src", "rules", "tests", "scripts", "docs", "examples")
    files = "\n".join(f"/{path.relative_to(ROOT).as_posix()}\n" for top in tops for path in (ROOT / top).rglob("*.*"))
    for page in [ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("how-a-*.md")]:
        for name in re.findall(r"`([\w./{},-]+(?:\.py|\.yaml|\.json|/))`", page.read_text(encoding="utf-8")):
            before, _, rest = name.partition("{")
            inside, _, after = rest.partition("}")
            for one in (f"{before}{each}{after}" for each in inside.split(",")):
                found = f"/{one}" if one.endswith("/") else f"/{one}\n"
                assert found in files or "nnn" in one or "X.Y" in one, f"{page.name} names {one}, which is not there"


def test_no_sentence_of_the_source_has_a_question_word_as_its_subject() -> None:
    found = [
        f"{name}:{line}: {sentence}"
        for name, text in texts().items()
        if re.search(r"\b(?:Wh(?:at|o)|Th(?:ose|at))", text)  # other files need not be parsed
        for line, sentence in said(text, parsed(name))
        if _RIDDLE.search(sentence)
    ]
    assert not found, "\n".join(found)


def test_a_functions_docstring_begins_with_a_verb_or_the_thing_it_gives() -> None:
    found = [
        f"{name}:{line}: {text}" for name, tree in modules() for line, text in docstrings(tree) if _FRAGMENT.match(text)
    ]
    assert not found, "\n".join(found)


def test_no_sentence_of_a_page_has_a_question_word_as_its_subject() -> None:
    found = [f"{path.name}: {text[:200]}" for path in PAGES for text in sentences(path) if _RIDDLE.search(text)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "text",
    [
        "What a report calls it.",
        "Who measures steps waits for them, and is none.",
        "Seconds. What is left goes.",
        "Words. Those of rules are data.",
    ],
)
def test_a_riddle_is_seen(text: str) -> None:
    assert _RIDDLE.search(text)


@pytest.mark.parametrize("text", ["What does it cost?", "Return what a call gives.", "The name. `What` is a field."])
def test_a_plain_sentence_is_none(text: str) -> None:
    assert not _RIDDLE.search(text)
