"""Reads a rule file: turns YAML into checked, plain data, which can be stored as JSON.

Reading runs no code from the file. A rule file is checked once, when the package is built or when the file is first
used. Later, only the stored data are loaded.
"""

from __future__ import annotations

import re
import string
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from graphsafe.document import Convert, Document, list_of, table_of, word_of
from graphsafe.errors import RequestError, nearest
from graphsafe.report.model import CONFIDENCES, LEVELS, REGIONS
from graphsafe.rulebook.libraries import ReturnKind, Returns
from graphsafe.rulebook.vocabulary import FIXES, HOWS, WORDS, EventKind

CODE = re.compile(r"[A-Z]{2,8}\d{3}")
MAX_DEPTH = 32
"The largest nesting depth of lists and tables in a rule file. graphsafe's own rule files need five levels."
_EXPECT = re.compile(r"#\s*expect:\s*(?P<codes>[A-Z]{2,8}\d{3}(?:\s*,\s*[A-Z]{2,8}\d{3})*)\s*$")


class RulebookError(RequestError):
    """Raised if a rule file is invalid. The message is one line with the file, the key and the reason."""


def read_rules(path: Path, content: bytes) -> list[dict[str, Any]]:
    """Return the rules of one file, which contains one rule or a list of rules. Raises RulebookError."""
    data = read_yaml(path, content)
    doc = Document(str(path), RulebookError)
    items = doc.items("", data) if isinstance(data, list) else [("", data)]
    return [_rule(doc, key, item) for key, item in items]


def read_entry_points(path: Path, content: bytes) -> dict[str, str]:
    """Return the functions that engines call once per step, each with its region.

    The file is a table of region -> engine -> names.
    """
    doc = Document(str(path), RulebookError)
    found = {}
    for region, engines in doc.table("", read_yaml(path, content)).items():
        doc.one_of(region, region, REGIONS)
        for engine, names in doc.table(region, engines).items():
            found.update(dict.fromkeys(doc.texts(f"{region}.{engine}", names), region))
    return dict(sorted(found.items()))


def read_libraries(path: Path, content: bytes) -> list[dict[str, Any]]:
    """Return the models of library functions, from a table of library -> entries."""
    doc = Document(str(path), RulebookError)
    libraries = doc.table("", read_yaml(path, content)).items()
    entries = (entry for library, items in libraries for entry in doc.items(library, items))
    return [doc.read(key, item, _LIBRARY_KEYS, ("names",)) for key, item in entries]


def read_errors(path: Path, content: bytes) -> list[dict[str, Any]]:
    """Return the errors that `graphsafe explain` knows."""
    doc = Document(str(path), RulebookError)
    items = doc.items("", read_yaml(path, content))
    return [doc.read(key, item, _ERROR_KEYS, ("texts", "what", "do")) for key, item in items]


def read_yaml(path: Path, content: bytes) -> object:
    """Return YAML as plain data. YAML tags create no objects. Raises RulebookError."""
    import yaml

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    def refuse(problem: str, at: Any) -> None:
        raise yaml.MarkedYAMLError(problem=problem, problem_mark=at.start_mark)

    class Loader(base):  # type: ignore[misc]
        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            seen = set()
            for key, _ in node.value:
                if not isinstance(key, yaml.ScalarNode):
                    refuse("expected a string as a key", key)
                if key.value in seen:
                    refuse(f'the key "{key.value}" is given twice', key)
                seen.add(key.value)
            return super().construct_mapping(node, deep)

    try:
        text = content.decode("utf-8")
        depth = 0
        # Check the depth before the data are built: building is recursive, and nested aliases grow exponentially.
        for event in yaml.parse(text, base):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > MAX_DEPTH:
                refuse("nested too deeply", event)
            if isinstance(event, yaml.AliasEvent):
                refuse("a rule file has no aliases", event)
        return yaml.load(text, Loader)
    except UnicodeDecodeError as error:
        raise RulebookError(f"{path}: not UTF-8 ({error.reason} at byte {error.start})") from None
    except yaml.MarkedYAMLError as error:
        line = f"{error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise RulebookError(f"{path}:{line}{error.problem}") from None
    except (yaml.YAMLError, ValueError) as error:
        raise RulebookError(f"{path}: {' '.join(str(error).split())}") from None


def expected_lines(code: str, source: str) -> set[int]:
    """Return the lines of a case that are marked with `# expect: CODE` for this code."""
    marks = ((number, _EXPECT.search(line)) for number, line in enumerate(source.splitlines(), start=1))
    return {number for number, mark in marks if mark and code in re.split(r"\s*,\s*", mark["codes"])}


def _rule(doc: Document, key: str, value: object) -> dict[str, Any]:
    """Return a checked rule. Its cases are under the keys `bad` and `good`."""
    rule: dict[str, Any] = doc.read(key, value, _RULE_KEYS, _RULE_REQUIRED)
    rule |= {"bad": (), "good": (), "matches": rule.pop("match", ()), **rule.pop("cases", {})}
    code, within = rule["code"], f"{key}." if key else ""
    if not key and not Path(doc.source).name.startswith(code) and CODE.match(Path(doc.source).name):
        raise doc.error("code", f"{code} does not match the file name")
    if rule["matches"] and not (rule["bad"] and rule["good"]):
        raise doc.error(f"{within}cases", "a rule that matches events needs at least one bad and one good case")
    if rule["matches"]:
        _check_words(doc, within, rule)
        for i, match in enumerate(rule["matches"]):
            _check_words(doc, f"{within}match[{i}].", match)
    for i, case in enumerate(rule["bad"]):
        if not expected_lines(code, case["code"]):
            raise doc.error(f"{within}cases.bad[{i}].code", f"no line ends with `# expect: {code}`")
    for i, case in enumerate(rule["good"]):
        if expected_lines(code, case["code"]):
            raise doc.error(f"{within}cases.good[{i}].code", f"expects {code}, so it is not a good case")
    return rule


def _code(doc: Document, key: str, value: object) -> str:
    if not isinstance(value, str) or not CODE.fullmatch(value):
        raise doc.error(key, f"expected capital letters and three digits, as in ABC101, got {value!r}")
    return value


def _line_of(form: str, words: str) -> Convert:
    """Return a check for a text of one line that must match the regular expression `form`. In errors, `words` describe
    the expected text."""

    def check(doc: Document, key: str, value: object) -> str:
        text = doc.line(key, value)
        if not re.fullmatch(form, text):
            raise doc.error(key, f"expected {words}, got {text!r}")
        return text

    return check


def _template(doc: Document, key: str, value: object) -> str:
    """Check one line with `{word}` placeholders.

    Attributes, indices and formats are refused, because they could access other objects.
    """
    text = doc.line(key, value)
    try:
        parts = list(string.Formatter().parse(text))
    except ValueError as error:
        raise doc.error(key, str(error)) from None
    for _, word, form, conversion in parts:
        if word is not None and (not word.isidentifier() or form or conversion):
            raise doc.error(key, f"expected plain placeholders such as {{expr}}, got {{{word}}}")
    return text


def _check_words(doc: Document, within: str, texts: Mapping[str, Any]) -> None:
    """Check that texts use only placeholders for words that events have."""
    for key in ("message", "fix_short"):
        for _, word, _, _ in string.Formatter().parse(texts.get(key, "")):
            if word is not None and word not in WORDS:
                hint = nearest(word, WORDS) or f"; there are {', '.join(WORDS)}"
                raise doc.error(within + key, f"unknown placeholder {{{word}}}{hint}")


def _how(doc: Document, key: str, value: object) -> tuple[str, ...]:
    hows = doc.texts(key, value)
    if not hows:
        raise doc.error(key, "an empty list matches nothing; omit the key to match every `how`")
    return hows


def _match(doc: Document, key: str, value: object) -> dict[str, Any]:
    """Check a match: events of one kind, or calls of functions with given names."""
    match: dict[str, Any] = doc.read(key, value, _MATCH_KEYS)
    if ("event" in match) == ("call" in match):
        raise doc.error(key, "expected either `event` or `call`")
    if "call" in match:
        if "how" in match:
            raise doc.error(f"{key}.how", "belongs to `event`")
        return {"event": "Call", "how": match.pop("call"), **match}
    if match["event"] == "Call":
        raise doc.error(f"{key}.event", "say `call: [NAME, ...]` instead")
    for how in match.get("how", ()):
        doc.one_of(f"{key}.how", how, sorted(HOWS[match["event"]]))
    return match


def _called(doc: Document, key: str, value: object) -> tuple[str, ...]:
    """Check a list of dotted names, or of shell patterns that match them."""
    names = doc.texts(key, value)
    for name in names:
        if "." not in name or not re.fullmatch(r"[\w.*?\[\]!-]+", name):
            raise doc.error(key, f"expected a dotted name such as library.module.function, got {name!r}")
    return names


def _read_by(keys: Mapping[str, Convert], *required: str) -> Convert:
    """Return a check for a table with these keys."""
    return lambda doc, key, value: doc.read(key, value, keys, required)


def _returns(doc: Document, key: str, value: object) -> Returns:
    """Check a kind of return value, or a list of kinds for the elements of a tuple."""
    if isinstance(value, list):
        return tuple(_returns(doc, name, item) for name, item in doc.items(key, value))
    kind: ReturnKind = doc.one_of(key, value, get_args(ReturnKind))
    return kind


_VERSION = r"\s*(>=|<=|==|!=|>|<)\s*\d+(\.\d+)*\s*"
_torch = _line_of(f"{_VERSION}(,{_VERSION})*", 'versions such as ">=2.6,<2.12"')
_CASE: Mapping[str, Convert] = {
    "title": Document.line,
    "code": Document.text,
    "level": word_of(LEVELS),
    "confidence": word_of(CONFIDENCES),
}
_CASES = list_of(_read_by(_CASE, "title", "code"))
_EVIDENCE: Mapping[str, Convert] = {
    "torch": Document.line,
    "device": Document.line,
    "atlas": Document.texts,
    "says": Document.text,
}
_RULE_KEYS: Mapping[str, Convert] = {
    "code": _code,
    "name": _line_of(r"[a-z0-9]+(-[a-z0-9]+)*", "small-letters-with-dashes"),
    "level": word_of(LEVELS),
    "summary": Document.line,
    "what": Document.text,
    "why": Document.text,
    "fix": Document.text,
    "fix_short": _template,
    "message": _template,
    "around_graphs": _read_by({"why": Document.line, "fix": Document.line}, "why", "fix"),
    "error_text": Document.texts,
    "checklist": list_of(Document.number),
    "dynamo": Document.texts,
    "torch": _torch,
    "match": list_of(_match),
    "cases": _read_by({"bad": _CASES, "good": _CASES}),
    "evidence": list_of(_read_by(_EVIDENCE, "torch", "says")),
    "see_also": list_of(_code),
    "instead_of": list_of(_code),
    "fixes": list_of(word_of(tuple(FIXES))),
}
_RULE_REQUIRED = ("code", "name", "level", "summary", "what", "why", "fix", "fix_short", "message")
_MATCH_KEYS: Mapping[str, Convert] = {
    "event": word_of(get_args(EventKind)),
    "call": _called,
    "how": _how,
    "message": _template,
    "level": word_of(LEVELS),
    "why": Document.line,
    "fix_short": _template,
}
_LIBRARY_KEYS: Mapping[str, Convert] = {
    "names": Document.texts,
    "waits": Document.boolean,
    "returns": _returns,
    "unless": table_of(Document.number),
}
_ERROR_KEYS: Mapping[str, Convert] = {
    "code": Document.number,
    "name": _line_of(r"[^\W\d]\w*", "the name of a function"),
    "texts": Document.texts,
    "torch": _torch,
    "what": Document.text,
    "do": Document.text,
    "rules": list_of(_code),
}
