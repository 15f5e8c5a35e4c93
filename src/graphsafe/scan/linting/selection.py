"""Tells which rules are enabled in which files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from graphsafe.config import Config
from graphsafe.rulebook.book import Rulebook


@dataclass(frozen=True, slots=True)
class Selection:
    """The rules that the configuration selects, for all files and for single files."""

    codes: frozenset[str]
    per_file_ignores: Mapping[str, tuple[str, ...]]

    @staticmethod
    def of(config: Config, rulebook: Rulebook) -> Selection:
        """Return the selected rules. Raises RulebookError for an unknown code in `select`, `ignore` or
        `per-file-ignores`."""
        for codes in config.per_file_ignores.values():
            rulebook.codes(codes, f"{config.place}per-file-ignores")
        return Selection(rulebook.selected(config.select, config.ignore, config.place), config.per_file_ignores)

    def is_enabled(self, code: str, path: str) -> bool:
        """Return whether a rule is enabled in a file. `path` is relative to the project root, with forward slashes."""
        return code in self.codes and not any(
            fnmatchcase(path, pattern) and any(code.startswith(prefix) for prefix in codes)
            for pattern, codes in self.per_file_ignores.items()
        )
