"""A MkDocs hook: the pages about rules, errors and the rule format are made from rules/; the schema is published."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from graphsafe.report.schema import schema_text
from graphsafe.rulebook.book import Rulebook, load_rulebook
from graphsafe.rulebook.explain import FAMILIES, error_page, rule_page


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    rules = load_rulebook().rules.values()
    families: list[Any] = [
        {
            name: [
                {f"{rule.code} {rule.name}": f"rules/{rule.code}.md"} for rule in rules if rule.code.startswith(prefix)
            ]
        }
        for prefix, name in FAMILIES.items()
        if any(rule.code.startswith(prefix) for rule in rules)
    ]
    config.nav = [*(config.nav or []), {"Rules": [{"All rules": "rules/index.md"}, *families]}, {"Errors": "errors.md"}]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    rulebook = load_rulebook()
    pages = {f"rules/{rule.code}.md": rule_page(rule, rulebook) for rule in rulebook.rules.values()}
    pages["rules/index.md"] = _index(rulebook)
    pages["rule-files.md"] = (Path(config.config_file_path).parent / "rules" / "README.md").read_text(encoding="utf-8")
    pages["report.schema.json"] = schema_text()
    pages["errors.md"] = "# Errors\n\n" + "\n\n".join(
        error_page(error, rulebook).replace("\n## ", "\n### ").replace("# ", "## ", 1) for error in rulebook.errors
    )
    for path, text in pages.items():
        files.append(File.generated(config, path, content=text))
    return files


def _index(rulebook: Rulebook) -> str:
    rows = [
        f"| [{rule.code}]({rule.code}.md) | {rule.name} | {rule.level} | {rule.summary} |"
        for rule in rulebook.rules.values()
    ]
    return "\n".join(["# All rules", "", "| code | name | level | finds |", "|---|---|---|---|", *rows, ""])
