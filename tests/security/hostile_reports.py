"""Drawn reports that the schema permits, with hostile text in every place where it permits text."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from graphsafe.report.schema import report_schema

TEXTS = (
    "<script>alert(1)</script>",
    "\"><img src=x onerror='alert(1)'>",
    "</style></title></pre><iframe src=//evil>",
    "`<b onclick=alert(1)>`",
    "<!-- <![CDATA[ ]]> <?php &lt;&#0;",
    "\033[2J\033[1;1H\033]8;;http://evil\033\\link\033]8;;\033\\\033[31m",
    "\r\033[Kno findings",
    "\n::error file=x.py,line=1::forged",
    "::stop-commands::token",
    "x\r\n::add-mask::e\n##[add-path]/tmp/evil",
    "a " * 40 + "::error title=wrapped::forged " + "b " * 40 + "##vso[task.setvariable variable=x]y",
    "\n##teamcity[buildStatus text='ok']",
    "%0A::error::forged,line=7:title=x",
    "[red]markup[/red] [link=http://evil]here[/link]",
    "[text](javascript:alert(1))",
    "\0\x01\x08\x0b\x1f\x7f\x85\x9b2J\ufffe\uffff",
    "\u202eesrever\u2066\u2028new line\u2029\u200b",
    "half \ud800 of a character",
    "]]></failure><failure message='x'/>",
    "=cmd|' /C calc'!A0",
    "\t" * 9 + "e\u0301" * 99 + "\U0001f469\u200d\U0001f469",
    "x" * 5000,
    "",
    " ",
)
PATHS = (
    "inside.py",
    "outside_link.py",
    "circle.py",
    "fifo.py",
    ".env",
    "../secret.py",
    "{folder}/../secret.py",
    "sub/../../secret.py",
    "/etc/passwd",
    "/dev/stdin",
    "//evil/share/x.py",
    "a\0b.py",
    "x\ud800.py",
    "p" * 9000 + ".py",
    ".",
    "",
)
"""Paths are hostile text too; these also name something. `{folder}` is the working directory."""
_NUMBERS = (1, 2, 7, 0, -1, 10**6, 2**63)


class Drawn:
    """Draws values of the parts of the report's schema."""

    def __init__(self, seed: int, folder: str) -> None:
        self._random = Random(seed)
        self._folder = folder
        self.texts: list[str] = []
        "Every text that stands in the report, as a value or a key."

    def report(self) -> dict[str, Any]:
        report: dict[str, Any] = self.value(report_schema()["$defs"]["report"])
        if report["command"] == "scan":
            report |= dict.fromkeys(("target", "verdict", "evidence", "devices", "plan", "support"))
        else:
            report["target"] = report["target"] if report["target"] is not None else self.text()
            report["verdict"] = report["verdict"] or "not-ready"
            report["devices"] = report["devices"] or []
        return report

    def ledger(self) -> dict[str, Any]:
        ledger: dict[str, Any] = self.value(report_schema()["$defs"]["ledger"])
        return ledger

    def text(self, key: str = "") -> str:
        many = PATHS if key in ("path", "place", "where") and self._random.random() < 0.6 else TEXTS
        drawn = "".join(self._random.sample(many, 1 if many is PATHS else self._random.randint(1, 2)))
        self.texts.append(drawn.replace("{folder}", self._folder))
        return self.texts[-1]

    def value(self, part: Mapping[str, Any], key: str = "") -> Any:
        if "$ref" in part:
            return self.value(report_schema()["$defs"][part["$ref"].rpartition("/")[2]], key)
        if "oneOf" in part:
            return self.value(self._random.choice(part["oneOf"]), key)
        if "enum" in part:
            return self._random.choice(part["enum"])
        if "const" in part:
            return part["const"]
        if "pattern" in part:
            return self._random.choice(("GS101", "GS401", "EVIL666"))
        kinds = part.get("type", ["string", "array", "object", "integer", "null"])
        kind = self._random.choice(kinds) if isinstance(kinds, list) else kinds
        if kind == "object":
            return self._object(part)
        if kind == "array":
            items = part.get("items", {"type": ["string", "integer", "null", "object"]})
            return [self.value(items, key) for _ in range(self._random.randint(0, 2))]
        if kind == "string":
            return self.text(key)
        number = max(self._random.choice(_NUMBERS), part.get("minimum", -(2**63)))
        simple = {"integer": number, "number": number / 3, "boolean": self._random.random() < 0.5, "null": None}
        return simple[kind]

    def _object(self, part: Mapping[str, Any]) -> dict[str, Any]:
        known, further = part.get("properties", {}), part.get("additionalProperties", True)
        drawn = {name: self.value(known[name], name) for name in known}
        free = {"type": ["string", "integer", "null"]} if further is True else further
        if free and self._random.random() < 0.7:
            drawn[self.text()] = self.value(free)
        return drawn
