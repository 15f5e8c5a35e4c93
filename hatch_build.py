"""Puts rules/ into the wheel: the rule files compiled to one JSON file, the op table as it is."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class RulesHook(BuildHookInterface):  # type: ignore[type-arg]
    """An editable install has the checkout's rules/ and needs nothing."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        sys.path.insert(0, str(Path(self.root) / "src"))
        from graphsafe.rulebook.book import COMPILED, compile_rules

        rules = Path(self.root) / "rules"
        self._folder = tempfile.TemporaryDirectory()
        compiled = Path(self._folder.name) / COMPILED
        compiled.write_text(compile_rules(rules), encoding="utf-8")
        build_data["force_include"][str(compiled)] = f"graphsafe/_rules/{COMPILED}"
        for table in ("torch.json", "aten-known.json"):  # what was measured, torch-X.Y.json, is for tests
            build_data["force_include"][str(rules / "ops" / table)] = f"graphsafe/_rules/ops/{table}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if version != "editable":
            self._folder.cleanup()
