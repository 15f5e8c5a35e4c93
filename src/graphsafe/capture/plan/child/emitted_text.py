"""The text of emitted code: names, comments and the functions around functions."""

from __future__ import annotations

import ast
import io
import re
import textwrap
import tokenize
from collections.abc import Iterable, Sequence

from graphsafe.capture.shared.places import shown

_WORDS = re.compile(r"(?<!\w)__\w*?[^\W_]\w*")


def with_mangled_names(text: str, owner: str) -> str:
    """Write private names in the mangled form of the surrounding class, since emitted code is outside of the class."""

    def mangled(word: re.Match[str]) -> str:
        return word[0] if word[0].endswith("__") else f"_{owner.lstrip('_')}{word[0]}"

    if "__" not in text:
        return text
    lines = text.splitlines(keepends=True)
    dedented = textwrap.dedent(text)
    indent = len(text.partition("\n")[0]) - len(dedented.partition("\n")[0])
    for token in reversed(list(tokenize.generate_tokens(io.StringIO(dedented).readline))):
        formatted = (
            token.type == tokenize.STRING and "f" in token.string[: token.string.index(token.string[-1])].lower()
        )
        if token.start[0] == token.end[0] and (token.type == tokenize.NAME or formatted):
            line, start, end = lines[token.start[0] - 1], token.start[1] + indent, token.end[1] + indent
            lines[token.start[0] - 1] = line[:start] + _WORDS.sub(mangled, line[start:end]) + line[end:]
    return "".join(lines)


def with_variables(name: str, shared: Sequence[str], written: str) -> str:
    """Return the code of a function, wrapped in a function that declares the variables shared with the original
    enclosing function."""
    arguments = ", ".join(f"{variable}: Any" for variable in shared)
    inner = textwrap.indent(written, "    ")
    return f"def {name}({arguments}) -> Callable[..., Any]:\n{inner}\n\n    return {name}"


def joined_imports(lines: Iterable[str]) -> str:
    """Return imports without duplicates, with one `from` line for each module."""
    plain: set[str] = set()
    names: dict[str, set[str]] = {}
    for line in lines:
        (node,) = ast.parse(line).body
        if isinstance(node, ast.ImportFrom):
            names.setdefault(f"{'.' * node.level}{node.module or ''}", set()).update(map(ast.unparse, node.names))
        else:
            plain.add(line)
    return "\n".join([*sorted(plain), *(f"from {one} import {', '.join(sorted(names[one]))}" for one in sorted(names))])


def comment(text: str, indent: str) -> str:
    return "\n".join(textwrap.wrap(text, 110, initial_indent=f"{indent}# ", subsequent_indent=f"{indent}# "))


def docstring(headline: str, target: str) -> str:
    text = (
        f"How {shown(target)} runs as CUDA graphs with eager breaks between them, as graphsafe found and verified it."
    )
    use = "Needs breakable-cuda-graphs 0.1. `step = capture(fn, args, kwargs)`, then `outputs = step(*args, **kwargs)`."
    parts = ["\n".join(textwrap.wrap(part, 110)) for part in (text, f"{headline[:1].upper()}{headline[1:]}.", use)]
    return "\n\n".join(parts) + "\n"
