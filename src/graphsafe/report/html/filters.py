"""Filters over the findings of a page.

There is a select box for each property, and style rules hide the findings that do not have the chosen values. No script
runs, because notebooks and artifacts of CI systems forbid scripts. A style rule checks which option of a box is chosen:
`:has(option.c3:checked)`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from graphsafe.report.html.words import escaped_text
from graphsafe.report.model import LEVELS, REGIONS, Finding

_LEAST = 2
"Filters are shown if there are at least this many findings."


_FILE = "file"
_PROPERTIES: Mapping[str, Callable[[Finding], str]] = {
    "level": lambda finding: finding.level,
    "code": lambda finding: finding.code,
    "region": lambda finding: finding.region or "not known",
    _FILE: lambda finding: finding.location.path,
}
"Name of a filter -> the property of a finding. The CSS classes of a filter begin with the first letter of its name."


class Filters:
    """The properties of the findings in all reports of a page."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        self._classes: Mapping[str, Mapping[str, str]] = {
            name: {
                value: f"{name[0]}{number}"
                for number, value in enumerate(_ordered({value_of(finding) for finding in findings}))
            }
            for name, value_of in _PROPERTIES.items()
        }

    def classes(self, *findings: Finding) -> str:
        """Return the CSS classes of an element that contains these findings, without the classes of their files."""
        of = [name for name in _PROPERTIES if name != _FILE]
        return " ".join(sorted({self._classes[name][_PROPERTIES[name](one)] for name in of for one in findings}))

    def of_file(self, path: str) -> str:
        """Return the CSS class of an element that contains the findings of a file."""
        return self._classes[_FILE][path]

    def boxes(self, findings: Sequence[Finding]) -> str:
        """Return the select boxes for these findings. Return "" if there is nothing to choose."""
        if len(findings) < _LEAST:
            return ""
        return f'<form class="filters">{"".join(self._box(each, findings) for each in _PROPERTIES)}</form>'

    def _box(self, name: str, findings: Sequence[Finding]) -> str:
        counts = Counter(map(_PROPERTIES[name], findings))
        if len(counts) < _LEAST:
            return ""
        options = "".join(
            f'<option class="{self._classes[name][value]}">{escaped_text(value)} ({counts[value]})</option>'
            for value in _ordered(counts)
        )
        return f"<label>{name} <select><option>any {name}</option>{options}</select></label>"

    def rules(self) -> str:
        """Return the style rules that hide the findings which were not chosen."""
        rules = []
        for of, classes in self._classes.items():
            articles = ("~ section article", "~ details article", "~ details")
            hidden = ("~ section", "~ details section") if of == _FILE else articles
            for name in classes.values() if len(classes) > 1 else ():
                # Restricting the selector to the boxes keeps a browser from searching the whole page for each file.
                chosen = f".filters:has(option.{name}:checked)"
                rules.append(f"{', '.join(f'{chosen} {one}:not(.{name})' for one in hidden)} {{display:none}}\n")
        return "".join(rules)


def _ordered(values: set[str] | Counter[str]) -> list[str]:
    """Sort levels from the most severe down, regions in the order of their definition, and all other values by name."""
    known = [*reversed(LEVELS), *REGIONS]
    return sorted(values, key=lambda value: (known.index(value) if value in known else len(known), value))
