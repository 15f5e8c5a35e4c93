"""Makes Markdown pages about rules and errors from the rulebook, for the terminal, the documentation and SARIF."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from string import ascii_uppercase
from textwrap import fill

from graphsafe.errors import RequestError, nearest
from graphsafe.rulebook.book import KnownError, Rulebook
from graphsafe.rulebook.rule import Case, Rule

FAMILIES: Mapping[str, str] = {
    "GS1": "The host reads the device",
    "GS2": "Shape depends on data",
    "GS3": "Host-to-device copies",
    "GS4": "Allocation every step",
    "GS5": "Random numbers",
    "GS6": "Streams, devices, capture",
    "GS7": "State across replays",
    "GS8": "Declared against proven",
    "GS9": "graphsafe's own",
}
"Prefix of rule codes -> the common subject of these rules."
WIDTH = 120
"The width of the texts in rule files. If a text of a page is joined from parts, it is wrapped at the same width."
_PREFIX = re.compile(r"[A-Z]+\d{0,2}")
_CUDA_CODE = re.compile(r"(?:E|(?:CUDA )?error (?:code )?)(?P<named>\d{1,3})|(?P<plain>\d{3})", re.IGNORECASE)
_LEAST_WORDS = 3
"""Only a message of at least this many words is recognised inside a known error message. A shorter text could be in any
message."""


def page_for(text: str, rulebook: Rulebook) -> str:
    """Return the page about a rule, a group of rules or an error. Raises RequestError if nothing is known.

    `text` is a rule's code or name, a prefix of codes, the number or name of a CUDA error, or an error message.
    """
    word = text.strip()
    ruled = [
        rule
        for rule in rulebook.rules.values()
        if word.upper() in (rule.code, rule.code.lstrip(ascii_uppercase)) or word.lower() == rule.name
    ]
    number = _CUDA_CODE.fullmatch(word)
    known = [
        error
        for error in rulebook.errors
        if (number and error.code == int(number["named"] or number["plain"]))
        or (error.name and error.name.lower() == word.lower())
    ]
    begun = [rule for rule in rulebook.rules.values() if rule.code.startswith(word.upper())]
    if not ruled and begun and _PREFIX.fullmatch(word.upper()):
        return _family_page(word.upper(), begun)
    if not ruled:  # 902, for example, is the number of both a rule and a CUDA error
        names = set(re.findall(r"\w+", text.lower()))
        known = known or [error for error in rulebook.errors if error.name and error.name.lower() in names]
        known = known or [error for error in rulebook.errors if _speaks_of(text, error.texts)]
    if ruled or known:
        return "\n".join([*(rule_page(rule, rulebook) for rule in ruled), *(error_page(e, rulebook) for e in known)])
    rules = [rule for rule in rulebook.rules.values() if _speaks_of(text, rule.error_text)]
    if rules:
        return f"# {text}\n\n## Rules that find the cause\n\n{_listed_codes([rule.code for rule in rules], rulebook)}\n"
    known_names = [rule.name for rule in rulebook.rules.values()]
    known_names += [error.name for error in rulebook.errors if error.name]
    hint = "" if number else rulebook.hint(word) or nearest(text, known_names)
    raise RequestError(f'explain: nothing is known about "{text}"{hint}; `graphsafe rules` lists the rules')


def _family_page(prefix: str, rules: Sequence[Rule]) -> str:
    title = f"{prefix} {FAMILIES[prefix]}" if prefix in FAMILIES else prefix
    return f"# {title}\n\n{_bullets(f'{one.code} {one.name}, {one.level_of()}: {one.summary}' for one in rules)}\n"


def rule_page(rule: Rule, rulebook: Rulebook) -> str:
    """Return a page with everything in a rule's file, but only the first case of each kind."""
    configured = "" if rule.configured is None else f"; configured here: {rule.configured}"
    parts = [
        f"# {rule.code} {rule.name}\n\n{rule.summary} Level: {rule.level}{configured}.",
        f"## What it finds\n\n{rule.what}",
        f"## Why it breaks a capture\n\n{rule.why}",
        f"## What to write instead\n\n{rule.fix}",
    ]
    if rule.around_graphs is not None:
        around = rule.around_graphs
        text = _filled(f"{around.why} What to do: {around.fix}.")
        parts.append(f"## In host code around graphs: a warning\n\n{text}")
    if rule.bad:
        parts.append(f"## Found\n\n{_shown(rule.bad[0])}")
    if rule.good:
        parts.append(f"## Not found\n\n{_shown(rule.good[0])}")
    if rule.error_text:
        # An error's text stays on one line, so that a search for it finds the page.
        parts.append("## What you would see\n\n" + "\n".join(f"- `{text}`" for text in rule.error_text))
    if rule.evidence:
        parts.append("## Measured\n\n" + _bullets(f"{_where(e.torch, e.device)}: {e.says}" for e in rule.evidence))
    answers = [f"NVIDIA's checklist for PyTorch and CUDA graphs, item {n}" for n in rule.checklist]
    answers += [f"Dynamo graph break {number}" for number in rule.dynamo]
    if rule.torch:
        answers.append(f"holds for torch {rule.torch}")
    if answers:
        parts.append("## Reference\n\n" + _bullets(answers))
    if rule.see_also:
        parts.append("## See also\n\n" + _listed_codes(rule.see_also, rulebook))
    return "\n\n".join(part.strip() for part in parts) + "\n"


def error_page(error: KnownError, rulebook: Rulebook) -> str:
    """Return a page about a known error: its meaning, and the rules that find its cause."""
    title = f"E{error.code} {error.name}" if error.code else error.texts[0]
    text = "\n".join(f"> {line}" for line in error.texts)
    versions = f"\n\nText of torch {error.torch}." if error.torch else ""
    parts = [f"# {title}", text + versions, f"## What it means\n\n{error.what}", f"## What to do\n\n{error.do}"]
    same = (
        one.code for one in rulebook.rules.values() if any(_speaks_of(text, error.texts) for text in one.error_text)
    )
    codes = {*error.rules, *same}
    if codes:
        parts.append("## Rules that find the cause\n\n" + _listed_codes(sorted(codes), rulebook))
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _speaks_of(text: str, known: Sequence[str]) -> bool:
    """Return whether `text` contains a known error message, as a log may, or is itself a large part of such a
    message."""
    said = _words(text)
    return any(
        f" {words} " in f" {said} " or (said.count(" ") + 1 >= _LEAST_WORDS and f" {said} " in f" {words} ")
        for words in map(_words, known)
    )


def _words(text: str) -> str:
    """Return the words in lower case, without punctuation. Every number becomes `n`, because the numbers in an error
    message vary."""
    return " ".join("n" if word.isdigit() else word for word in re.findall(r"\w+", text.lower()))


def _shown(case: Case) -> str:
    code = re.sub(r"# expect: ", "# ", case.code).strip("\n")
    return f"{case.title[:1].upper()}{case.title[1:]}:\n\n```python\n{code}\n```"


def _where(torch: str, device: str | None) -> str:
    return f"torch {torch} on {device}" if device else f"torch {torch}"


def _listed_codes(codes: Iterable[str], rulebook: Rulebook) -> str:
    rules = [(code, rulebook.rules.get(code)) for code in codes]
    return _bullets(f"{code} {rule.name}: {rule.summary}" if rule else code for code, rule in rules)


def _bullets(lines: Iterable[str]) -> str:
    return "\n".join(_filled(f"- {line}", rest="  ") for line in lines)


def _filled(text: str, rest: str = "") -> str:
    return fill(" ".join(text.split()), WIDTH, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False)
