"""The configuration of a project: `[tool.graphsafe]` in pyproject.toml, or the whole of graphsafe.toml."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from graphsafe.document import Convert, Document, list_of, table_of, word_of
from graphsafe.errors import RequestError
from graphsafe.files import MAX_HANDWRITTEN, from_here, read_regular, saved
from graphsafe.report.model import LEVELS, REGIONS, Level, Region

AxisValue = int | float | str | bool
"A value that a keyword argument of a factory has in one bucket."

SUPPORT_LEVELS = ("NEVER", "UNIFORM_SINGLE_TOKEN_DECODE", "UNIFORM_BATCH", "ALWAYS")
"""Levels of support for CUDA graphs, with vLLM's names. Each level includes the batches of the previous one.

The levels are: no batches, batches of one token per request, batches with the same number of tokens per request, all
batches.
"""

DEVICE = re.compile(r"(cuda|sim)(:\d+)?|all")
_RANGE = re.compile(r"(\d+)\.\.(\d+)(?::(\d+))?")
_MOST_VALUES = 4096
_ROOT_MARKERS = ("pyproject.toml", "setup.py", "setup.cfg", ".git")


class ConfigError(RequestError):
    """Raised if the configuration is invalid. The message is one line with the file, the key and the reason."""


@dataclass(frozen=True, slots=True)
class FunctionPattern:
    """The functions that an entry of `hot-paths` or `cold-paths` names: `where:function`. Both parts are shell
    patterns.

    `where` is a dotted module (`engine.runner`), a file (`engine/runner.py`) or a folder (`engine/`), relative to the
    project root. Without `:function`, the entry names every function there. `*` also matches dots and slashes.
    """

    where: str
    function: str = "*"
    compiled: bool = False
    "Whether this hot path runs under torch.compile, so that `is_compiling()` is True."
    region: Region = "captured"
    "The region of the code under this hot path. It is `step` for host code around the graphs."

    def names(self, path: str, module: str, function: str) -> bool:
        """Return whether the pattern matches a function and contains its full name, without `*`."""
        return function == self.function and self.matches(path, module, function)

    def matches(self, path: str, module: str, function: str) -> bool:
        """Return whether the pattern matches a function.

        `path` is relative to the project root, with forward slashes. `function` is the qualified name.
        """
        where = self.where + "*" if self.where.endswith("/") else self.where
        # A path is also compared as a dotted name from the root, as if each of its folders were a package.
        from_root = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        return fnmatchcase(function, self.function) and any(
            fnmatchcase(name, where) for name in (path, module, from_root)
        )


@dataclass(frozen=True, slots=True)
class Target:
    """One step that `graphsafe capture --all` proves."""

    name: str
    factory: str
    "`FILE.py:FACTORY` or `package.module:FACTORY`. A file is relative to the project root."
    devices: tuple[str, ...] = ()
    """The devices, as on the command line. If this is empty, the first GPU is used or, without a GPU, the simulated
    device."""
    buckets: Mapping[str, tuple[AxisValue, ...]] = field(default_factory=dict)
    breaks: bool = False
    "Whether eager breaks between captured regions are accepted. Then `ready-with-breaks` is a success."
    compiled: bool = False
    "Whether the step runs under torch.compile, so that `is_compiling()` is True."
    declared: str | None = None
    "The declared level of support (one of `SUPPORT_LEVELS`), for a step whose classes do not declare it."

    def factory_from(self, root: Path, folder: Path) -> str:
        """Return the factory as a user would type it in `folder`. `root` is the project root."""
        where, _, factory = self.factory.rpartition(":")
        return f"{os.path.relpath(root / where, folder)}:{factory}" if where.endswith(".py") else self.factory


@dataclass(frozen=True, slots=True)
class Config:
    """A project's configuration, with the defaults filled in."""

    root: Path
    """The project root: the folder of the configuration. Without a configuration, it is the nearest folder that looks
    like a project."""
    source: Path | None = None
    "The file that was read, or None."
    keys: tuple[str, ...] = field(default=(), compare=False, repr=False)
    "The keys that are in the file, sorted."
    hot_paths: tuple[FunctionPattern, ...] = ()
    cold_paths: tuple[FunctionPattern, ...] = ()
    select: tuple[str, ...] = ()
    "Codes or their beginnings (`GS1`). If empty, every rule is selected."
    ignore: tuple[str, ...] = ()
    per_file_ignores: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    "Shell pattern of a path from the root -> codes or their beginnings."
    levels: Mapping[str, Level] = field(default_factory=dict)
    "Code or its beginning -> the level of its findings, which replaces the rulebook's level."
    fail_level: Level = "error"
    region: Region | None = None
    "Only findings in this region, and findings without a region, are reported. None means all."
    exclude: tuple[str, ...] = ()
    "Paths that a scan does not read. They are patterns as in .gitignore, from the root."
    rule_packs: tuple[Path, ...] = ()
    settings: tuple[str, ...] = ()
    "Environment variables that reports record, in addition to graphsafe's own list."
    targets: Mapping[str, Target] = field(default_factory=dict)

    @property
    def place(self) -> str:
        """The beginning of the name of a key in an error message, such as `pyproject.toml: tool.graphsafe.`."""
        return "" if self.source is None else f"{from_here(str(self.source))}: {_prefix(self.source)}"


def load_config(start: Path) -> Config:
    """Return the configuration for `start`, a file or a folder. Raises ConfigError.

    The result is the nearest configuration at or above `start`, up to the root of the repository.
    """
    start = start.resolve()
    folder = start if start.is_dir() else start.parent
    marked: Path | None = None
    for candidate in (folder, *folder.parents):
        table = _table_in(candidate)
        if table is not None:
            return _from_table(candidate, *table)
        if os.path.exists(candidate / ".git"):
            marked = candidate
            break
        if marked is None and is_project_root(candidate):
            marked = candidate
    return Config(root=marked or folder)


def config_over(path: Path) -> Config:
    """Return the configuration for a folder, or for a file that need not exist. Raises ConfigError."""
    return load_config(path if path.is_dir() else path.parent)


def has_own_config(folder: Path) -> bool:
    """Return whether a folder has a configuration. Raises ConfigError only for an invalid file that mentions
    graphsafe."""
    named = saved(folder / "pyproject.toml", MAX_HANDWRITTEN) or b""
    may_have = b"graphsafe" in named or os.path.exists(folder / "graphsafe.toml")
    return may_have and _table_in(folder) is not None


def is_project_root(folder: Path) -> bool:
    """Return whether a folder looks like the root of a project."""
    return any(os.path.exists(folder / marker) for marker in _ROOT_MARKERS)


def _table_in(folder: Path) -> tuple[Path, dict[str, Any]] | None:
    own, shared = folder / "graphsafe.toml", folder / "pyproject.toml"
    table = read_toml(own)
    if table is not None:
        return own, table
    tool = (read_toml(shared) or {}).get("tool", {})
    return (shared, tool["graphsafe"]) if isinstance(tool, dict) and "graphsafe" in tool else None


def read_toml(path: Path, failure: type[RequestError] = ConfigError) -> dict[str, Any] | None:
    """Return the content of a TOML file, or None if it does not exist. Raises `failure`."""
    try:
        return parsed_toml(read_regular(path, MAX_HANDWRITTEN), from_here(str(path)), failure)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise failure(f"{from_here(str(path))}: {error.strerror}") from None


def parsed_toml(data: str | bytes, where: str, failure: type[RequestError] = ConfigError) -> dict[str, Any]:
    """Return the content of a TOML document. Raises `failure`, whose message names `where`."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        # Editors on Windows may begin a file with a byte order mark.
        return tomllib.loads(data if isinstance(data, str) else data.decode("utf-8-sig"))
    except RecursionError:
        raise failure(f"{where}: nested too deeply") from None
    except ValueError as error:  # not TOML, not UTF-8, or a number with thousands of digits
        if re.search("^<{7} ", data if isinstance(data, str) else data.decode("utf-8", "replace"), re.MULTILINE):
            raise failure(f"{where}: has a merge conflict; keep one side") from None
        raise failure(f"{where}: {error}") from None


def _from_table(root: Path, source: Path, table: object) -> Config:
    prefix = _prefix(source)
    doc = Document(from_here(str(source)), ConfigError, prefix)
    if not prefix and isinstance(table, dict) and "tool" in table:
        raise doc.error("tool", "unknown key (graphsafe.toml has the keys of [tool.graphsafe] without this table)")
    read = doc.read("", table, _KEYS)
    keys = tuple(sorted(read))
    packs = tuple(root / pack for pack in read.pop("rules", ()))
    named = {key.replace("-", "_"): value for key, value in read.items()}
    return Config(root=root, source=source, keys=keys, rule_packs=packs, **named)


def _prefix(source: Path) -> str:
    return "tool.graphsafe." if source.name == "pyproject.toml" else ""


def _hot_function(doc: Document, key: str, value: object) -> FunctionPattern:
    """Read a hot path: a string, or a table such as `{ path = "engine/", region = "step" }`."""
    if not isinstance(value, dict):
        return _function(doc, key, value)
    keys = {"path": _function, "compiled": Document.boolean, "region": word_of(REGIONS)}
    read = doc.read(key, value, keys, required=("path",))
    pattern: FunctionPattern = read.pop("path")
    return replace(pattern, **read)


def _function(doc: Document, key: str, value: object) -> FunctionPattern:
    where, colon, function = doc.text(key, value).partition(":")
    if not where or (colon and not function) or ":" in function:
        raise doc.error(key, f"expected module.or.path.py:Qualified.name, got {value!r}")
    return FunctionPattern(where, function or "*")


def _exclude(doc: Document, key: str, value: object) -> tuple[str, ...]:
    from graphsafe.ignorefile import problem_of

    for name, item in doc.items(key, value):
        problem = problem_of(doc.text(name, item))
        if problem is not None:
            raise doc.error(name, problem)
    return doc.texts(key, value)


def _targets(doc: Document, key: str, value: object) -> Mapping[str, Target]:
    targets = {}
    for name, item in doc.table(key, value).items():
        read = doc.read(f"{key}.{name}", item, _TARGET_KEYS, required=("factory",))
        targets[name] = Target(name, read.pop("factory"), devices=read.pop("device", ()), **read)
    return targets


def _factory(doc: Document, key: str, value: object) -> str:
    text = doc.text(key, value)
    if not all(text.rpartition(":")):
        raise doc.error(key, f"expected FILE.py:FACTORY or package.module:FACTORY, got {text!r}")
    return text


def _devices(doc: Document, key: str, value: object) -> tuple[str, ...]:
    devices = (value,) if isinstance(value, str) else doc.texts(key, value)
    for device in devices:
        if not DEVICE.fullmatch(device):
            raise doc.error(key, f"expected cuda, cuda:N, all, sim or sim:N, got {device!r}")
    return devices


def _buckets(doc: Document, key: str, value: object) -> Mapping[str, tuple[AxisValue, ...]]:
    buckets: dict[str, tuple[AxisValue, ...]] = {}
    for axis, values in doc.table(key, value).items():
        if not isinstance(values, list) or not values:
            raise doc.error(f"{key}.{axis}", "expected a list of numbers or strings")
        items = doc.items(f"{key}.{axis}", values)
        buckets[axis] = tuple(value for name, item in items for value in _axis_values(doc, name, item))
    return buckets


def values_in_range(text: str) -> tuple[int, ...] | None:
    """Return the values of a range: `8..32:8` is 8, 16, 24, 32. The end is included if one of the steps reaches it
    exactly.

    Return None if the string is not a range. Raises ValueError for an empty or too long range.
    """
    match = _RANGE.fullmatch(text)
    if match is None:
        return None
    first, last, step = int(match[1]), int(match[2]), int(match[3] or 1)
    if last < first or not step > 0 or (last - first) // step >= _MOST_VALUES:
        raise ValueError(f"a range must have 1 to {_MOST_VALUES} values")
    return tuple(range(first, last + 1, step))


def _axis_values(doc: Document, key: str, value: object) -> tuple[AxisValue, ...]:
    if not isinstance(value, str):
        return (value if isinstance(value, bool | float) else doc.number(key, value),)
    try:
        return values_in_range(value) or (doc.text(key, value),)
    except ValueError as error:
        raise doc.error(key, str(error)) from None


_KEYS: Mapping[str, Convert] = {
    "hot-paths": list_of(_hot_function),
    "cold-paths": list_of(_function),
    "select": Document.texts,
    "ignore": Document.texts,
    "per-file-ignores": table_of(Document.texts),
    "levels": table_of(word_of(LEVELS)),
    "fail-level": word_of(LEVELS),
    "region": word_of(REGIONS),
    "exclude": _exclude,
    "rules": Document.texts,
    "settings": Document.texts,
    "targets": _targets,
}
_TARGET_KEYS: Mapping[str, Convert] = {
    "factory": _factory,
    "device": _devices,
    "buckets": _buckets,
    "breaks": Document.boolean,
    "compiled": Document.boolean,
    "declared": word_of(SUPPORT_LEVELS),
}
