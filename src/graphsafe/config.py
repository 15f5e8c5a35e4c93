"""What a project says about itself: `[tool.graphsafe]` in pyproject.toml, or the whole of graphsafe.toml."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from graphsafe.errors import RequestError, nearest
from graphsafe.report.model import LEVELS, Level

AxisValue = int | float | str | bool
"A value that a factory's keyword argument takes in one bucket."

DEVICE = re.compile(r"(cuda|sim)(:\d+)?|all")
_ROOT_MARKERS = ("pyproject.toml", "setup.py", "setup.cfg", ".git")


class ConfigError(RequestError):
    """The configuration is malformed: one line with the file, the key and the reason."""


@dataclass(frozen=True, slots=True)
class FunctionPattern:
    """Which functions a line of `hot-paths` or `cold-paths` names: `where:function`, both shell patterns.

    `where` is a dotted module (`engine.runner`), a file (`engine/runner.py`) or a folder (`engine/`), relative to the
    project root; without `:function` every function there is meant. `*` crosses dots and slashes.
    """

    where: str
    function: str = "*"

    def matches(self, path: str, module: str, function: str) -> bool:
        """`path` is relative to the project root with forward slashes, `function` the qualified name."""
        where = self.where + "*" if self.where.endswith("/") else self.where
        return fnmatchcase(function, self.function) and (fnmatchcase(path, where) or fnmatchcase(module, where))


@dataclass(frozen=True, slots=True)
class Target:
    """One step that `graphsafe capture --all` proves."""

    name: str
    factory: str
    "`FILE.py:FACTORY` or `package.module:FACTORY`; a file is relative to the project root."
    devices: tuple[str, ...] = ()
    "As on the command line; empty means the first GPU, or the simulated device where there is none."
    buckets: Mapping[str, tuple[AxisValue, ...]] = field(default_factory=dict)
    breaks: bool = False
    "Whether eager breaks between captured regions are accepted: ready-with-breaks is then a success."


@dataclass(frozen=True, slots=True)
class Config:
    """A project's configuration, with the defaults filled in."""

    root: Path
    "The project root: where the configuration lies, else the nearest folder that looks like a project."
    source: Path | None = None
    "The file that was read, None where there is none."
    hot_paths: tuple[FunctionPattern, ...] = ()
    cold_paths: tuple[FunctionPattern, ...] = ()
    select: tuple[str, ...] = ()
    "Codes or their beginnings (`GS1`); empty means every rule."
    ignore: tuple[str, ...] = ()
    per_file_ignores: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    "Shell pattern of a path from the root -> codes or their beginnings."
    fail_level: Level = "error"
    exclude: tuple[str, ...] = ()
    "Patterns as in .gitignore, from the root, that scan does not read."
    rule_packs: tuple[Path, ...] = ()
    settings: tuple[str, ...] = ()
    "Environment variables to record in a report, besides graphsafe's own list."
    targets: Mapping[str, Target] = field(default_factory=dict)


def load_config(start: Path) -> Config:
    """The configuration that holds for `start`, a file or folder: the nearest at or above it, inside its repository.

    Raises ConfigError.
    """
    start = start.resolve()
    folder = start if start.is_dir() else start.parent
    marked: Path | None = None
    for candidate in (folder, *folder.parents):
        table = _table_in(candidate)
        if table is not None:
            return _from_table(candidate, *table)
        if marked is None and any((candidate / marker).exists() for marker in _ROOT_MARKERS):
            marked = candidate
        if (candidate / ".git").exists():
            break
    return Config(root=marked or folder)


def _table_in(folder: Path) -> tuple[Path, dict[str, Any]] | None:
    own = folder / "graphsafe.toml"
    if own.is_file():
        return own, _read_toml(own)
    shared = folder / "pyproject.toml"
    if shared.is_file():
        tool = _read_toml(shared).get("tool", {})
        if isinstance(tool, dict) and "graphsafe" in tool:
            return shared, tool["graphsafe"]
    return None


def _read_toml(path: Path) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from None


def _from_table(root: Path, source: Path, table: object) -> Config:
    if not isinstance(table, dict):
        raise ConfigError(f"{source}: tool.graphsafe: expected a table")
    read = _Reader(source, "tool.graphsafe." if source.name == "pyproject.toml" else "")
    fields: dict[str, Any] = {}
    for key, value in read.known(table, "", _KEYS):
        name, convert = _KEYS[key]
        fields[name] = convert(read, key, value)
    return Config(root=root, source=source, **fields)


@dataclass(frozen=True, slots=True)
class _Reader:
    """Checks values and says where a wrong one stands."""

    source: Path
    prefix: str

    def error(self, key: str, reason: str) -> ConfigError:
        return ConfigError(f"{self.source}: {self.prefix}{key}: {reason}")

    def known(self, table: Mapping[str, Any], within: str, keys: Mapping[str, Any]) -> list[tuple[str, Any]]:
        for key in table:
            if key not in keys:
                raise self.error(within + key, "unknown key" + nearest(key, keys))
        return list(table.items())

    def table(self, key: str, value: object) -> Mapping[str, Any]:
        if not isinstance(value, dict):
            raise self.error(key, f"expected a table, got {value!r}")
        return value

    def text(self, key: str, value: object) -> str:
        if not isinstance(value, str) or not value:
            raise self.error(key, f"expected a string, got {value!r}")
        return value

    def texts(self, key: str, value: object) -> tuple[str, ...]:
        if not isinstance(value, list):
            raise self.error(key, f"expected a list of strings, got {value!r}")
        return tuple(self.text(f"{key}[{i}]", item) for i, item in enumerate(value))

    def boolean(self, key: str, value: object) -> bool:
        if not isinstance(value, bool):
            raise self.error(key, f"expected true or false, got {value!r}")
        return value

    def level(self, key: str, value: object) -> Level:
        if value not in LEVELS:
            raise self.error(key, f"expected one of {', '.join(LEVELS)}, got {value!r}")
        return value

    def functions(self, key: str, value: object) -> tuple[FunctionPattern, ...]:
        patterns = []
        for i, item in enumerate(self.texts(key, value)):
            where, colon, function = item.partition(":")
            if not where or (colon and not function) or ":" in function:
                raise self.error(f"{key}[{i}]", f"expected module.or.path.py:Qualified.name, got {item!r}")
            patterns.append(FunctionPattern(where, function or "*"))
        return tuple(patterns)

    def files(self, key: str, value: object) -> tuple[Path, ...]:
        return tuple(self.source.parent / item for item in self.texts(key, value))

    def codes_by_file(self, key: str, value: object) -> Mapping[str, tuple[str, ...]]:
        return {pattern: self.texts(f"{key}.{pattern}", codes) for pattern, codes in self.table(key, value).items()}

    def targets(self, key: str, value: object) -> Mapping[str, Target]:
        return {name: self.target(name, f"{key}.{name}", item) for name, item in self.table(key, value).items()}

    def target(self, name: str, key: str, value: object) -> Target:
        fields = {}
        for part, item in self.known(self.table(key, value), f"{key}.", _TARGET_KEYS):
            field_name, convert = _TARGET_KEYS[part]
            fields[field_name] = convert(self, f"{key}.{part}", item)
        if "factory" not in fields:
            raise self.error(key, 'missing key "factory"')
        return Target(name=name, **fields)

    def factory(self, key: str, value: object) -> str:
        text = self.text(key, value)
        if not all(text.rpartition(":")):
            raise self.error(key, f"expected FILE.py:FACTORY or package.module:FACTORY, got {text!r}")
        return text

    def devices(self, key: str, value: object) -> tuple[str, ...]:
        devices = (self.text(key, value),) if isinstance(value, str) else self.texts(key, value)
        for device in devices:
            if not DEVICE.fullmatch(device):
                raise self.error(key, f"expected cuda, cuda:N, all, sim or sim:N, got {device!r}")
        return devices

    def buckets(self, key: str, value: object) -> Mapping[str, tuple[AxisValue, ...]]:
        buckets = {}
        for axis, values in self.table(key, value).items():
            if not isinstance(values, list) or not values or not all(isinstance(v, (int, float, str)) for v in values):
                raise self.error(f"{key}.{axis}", f"expected a list of numbers or strings, got {values!r}")
            buckets[axis] = tuple(values)
        return buckets


_KEYS: Mapping[str, tuple[str, Callable[[_Reader, str, object], Any]]] = {
    "hot-paths": ("hot_paths", _Reader.functions),
    "cold-paths": ("cold_paths", _Reader.functions),
    "select": ("select", _Reader.texts),
    "ignore": ("ignore", _Reader.texts),
    "per-file-ignores": ("per_file_ignores", _Reader.codes_by_file),
    "fail-level": ("fail_level", _Reader.level),
    "exclude": ("exclude", _Reader.texts),
    "rules": ("rule_packs", _Reader.files),
    "settings": ("settings", _Reader.texts),
    "targets": ("targets", _Reader.targets),
}
_TARGET_KEYS: Mapping[str, tuple[str, Callable[[_Reader, str, object], Any]]] = {
    "factory": ("factory", _Reader.factory),
    "device": ("devices", _Reader.devices),
    "buckets": ("buckets", _Reader.buckets),
    "breaks": ("breaks", _Reader.boolean),
}
