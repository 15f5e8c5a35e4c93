"""The rulebook: rules as data, from graphsafe's own rules/ and from a project's packs.

YAML is slow to read, so rules are compiled to JSON. The wheel's rules are compiled when the wheel is built. The rules
of a checkout and of packs are compiled on first use. Their JSON is stored in the user's cache, under a hash of the
files.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from graphsafe.errors import nearest
from graphsafe.files import MAX_HANDWRITTEN, from_here, leads_out, read_regular, user_cache, write_atomically
from graphsafe.report.model import Level, Region
from graphsafe.report.reading import read
from graphsafe.rulebook import rulefile
from graphsafe.rulebook.libraries import Libraries, LibraryModel
from graphsafe.rulebook.rule import Match, Rule
from graphsafe.rulebook.rulefile import RulebookError
from graphsafe.rulebook.vocabulary import EventKind

if TYPE_CHECKING:
    from graphsafe.config import Config
    from graphsafe.optable import OpTable

_PACKAGED = Path(__file__).parents[1] / "_rules"
_CHECKOUT = Path(__file__).parents[3] / "rules"
COMPILED = "rulebook.json"
UNREADABLE = "GS900"
"The code of the rule about files that cannot be read."
MAX_COMPILED = 64_000_000
"The largest size in bytes of a compiled rulebook."
_FAMILY = re.compile(r"\D*\d")
"Matches the letters and the first digit of a code. All codes of a family begin with these."
_KEPT = 16
"The largest number of compiled rulebooks in the user's cache."


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownError:
    """An error message of CUDA or PyTorch, its meaning, and the rules that find its cause."""

    code: int | None = None
    "CUDA's error number."
    name: str | None = None
    texts: tuple[str, ...]
    torch: str = ""
    what: str
    do: str
    rules: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Rulebook:
    """The rules by code, in the order of their codes, and the other data of rules/."""

    rules: Mapping[str, Rule]
    entry_points: Mapping[str, Region]
    "Function that a known engine calls once per step -> its region, which says whether graphs contain the function."
    errors: tuple[KnownError, ...]
    home: Path
    "The folder that contains the op tables."
    digest: str
    "A hash that changes if any rule changes. The key of every cache contains this hash."
    index: Mapping[tuple[str, str], tuple[tuple[Rule, Match], ...]]
    libraries: Libraries

    @property
    def ops(self) -> OpTable:
        return _op_table(self.home / "ops")

    def matching(self, event: EventKind, how: str) -> Sequence[tuple[Rule, Match]]:
        """Return the rules for events of this kind with this `how` (such as `pinned`), in the order of their codes."""
        found = self.index.get((event, how), ())
        return sorted((*found, *self.index.get((event, ""), ())), key=lambda pair: pair[0].code)

    def codes(self, selectors: Iterable[str], where: str) -> frozenset[str]:
        """Return the codes that selectors such as `GS101` or `gs1` name.

        Raises RulebookError, in which `where` is the name of the option.
        """
        codes: set[str] = set()
        for selector in selectors:
            named = {code for code in self.rules if code.upper().startswith(selector.upper())} if selector else set()
            if not named:
                raise RulebookError(f'{where}: unknown rule "{selector}"{self.hint(selector)}')
            codes |= named
        return frozenset(codes)

    def hint(self, selector: str) -> str:
        """Return a hint for an unknown selector: the code of the rule with this name, or a similar code of the same
        family."""
        code = next((rule.code for rule in self.rules.values() if rule.name == selector.lower()), None)
        if code is not None:
            return f" (its code is {code})"
        family = _FAMILY.match(selector.upper())
        known = [code for code in self.rules if family and code.upper().startswith(family[0])]
        return nearest(selector.upper(), known, cutoff=0.7)

    def selected(self, select: Sequence[str], ignore: Sequence[str], place: str = "") -> frozenset[str]:
        """Return the codes to report: the selected codes (by default all) without the ignored ones. Raises
        RulebookError, which begins with `place`.

        UNREADABLE is always selected, because no other rule checks a file that cannot be read.
        """
        chosen = self.codes(select, f"{place}select") | {UNREADABLE} if select else frozenset(self.rules)
        return chosen - self.codes(ignore, f"{place}ignore")


def load_rulebook(
    packs: Sequence[Path] = (),
    levels: Mapping[str, Level] = MappingProxyType({}),
    root: Path | None = None,
    place: str = "",
) -> Rulebook:
    """Load graphsafe's own rules and those of packs (files or folders), with configured levels.

    `root` is the folder of the project that names the packs, and `place` names its configuration in errors. Raises
    RulebookError.
    """
    data, own = _own()
    rules = [*own]
    compiled = []
    for pack in packs:
        compiled.append(_pack(pack, root, may_quote=root is None))
        added = [read(Rule, item) for item in compiled[-1]["rules"]]
        _refuse_own_codes(pack, added)
        rules += added
    book = _rulebook(rules, data, compiled)
    return _with_levels(book, levels, f"{place}levels") if levels else book


def rulebook_of(config: Config) -> Rulebook:
    """Load the rulebook with a configuration's packs and levels. Raises RulebookError."""
    packs = [Path(from_here(str(pack))) for pack in config.rule_packs]  # errors then show the path as reports do
    return load_rulebook(packs, config.levels, config.root, config.place)


def _with_levels(book: Rulebook, levels: Mapping[str, Level], where: str) -> Rulebook:
    """Return the rulebook with configured levels. Raises RulebookError, in which `where` is the name of the key that
    holds the levels.

    For GS401, a level for `GS401` takes precedence over a level for `GS4`.
    """
    chosen: dict[str, Level] = {}
    for selector in sorted(levels, key=len):
        chosen.update(dict.fromkeys(book.codes((selector,), where), levels[selector]))
    rules = {code: replace(rule, configured=chosen.get(code)) for code, rule in book.rules.items()}
    index = {key: tuple((rules[rule.code], match) for rule, match in pairs) for key, pairs in book.index.items()}
    return replace(book, rules=rules, index=index)


def load_pack(pack: Path) -> tuple[Rulebook, frozenset[str]]:
    """Return the rulebook with a pack's rules, and the codes of these rules. This serves to try a rule before it is
    used.

    Files in rules/ of a checkout may use codes of graphsafe's own rules. They then replace these rules. Raises
    RulebookError.
    """
    data, own = _own()
    compiled = _pack(pack, pack if pack.is_dir() else pack.parent, may_quote=True)
    tried = [read(Rule, item) for item in compiled["rules"]]
    if leads_out(pack, _CHECKOUT):
        _refuse_own_codes(pack, tried)
    codes = frozenset(rule.code for rule in tried)
    rules = [*(rule for rule in own if rule.code not in codes), *tried]
    return _rulebook(rules, data, [compiled]), codes


def _refuse_own_codes(pack: Path, rules: Iterable[Rule]) -> None:
    for rule in rules:
        if rule.code.startswith("GS"):
            raise RulebookError(f"{pack}: {rule.code}: codes that begin with GS are graphsafe's own")


def _rulebook(rules: Sequence[Rule], data: Mapping[str, Any], packs: Sequence[Mapping[str, Any]]) -> Rulebook:
    """Return the rulebook of some rules, with the other data of graphsafe's own rules and of packs."""
    by_code: dict[str, Rule] = {}
    names: dict[str, str] = {}
    for rule in sorted(rules, key=lambda rule: rule.code):
        if rule.code in by_code:
            raise RulebookError(f"{rule.code}: two rules have this code: {by_code[rule.code].name} and {rule.name}")
        if rule.name in names:
            raise RulebookError(f"{rule.code}: {names[rule.name]} has the same name, {rule.name}")
        by_code[rule.code] = rule
        names[rule.name] = rule.code
    index: dict[tuple[str, str], tuple[tuple[Rule, Match], ...]] = {}
    for rule in by_code.values():
        for match in rule.matches:
            for how in match.how or ("",):
                index[match.event, how] = (*index.get((match.event, how), ()), (rule, match))
    errors = tuple(read(KnownError, item) for item in data["errors"])
    called = dict.fromkeys(how for event, how in index if event == "Call")
    items = [item for each in (data, *packs) for item in each["libraries"]]
    models = (LibraryModel(**{key: _tuple(value) for key, value in item.items()}) for item in items)
    libraries = Libraries(models, called)
    digest = "-".join(each["digest"] for each in (data, *packs))
    return Rulebook(by_code, data["entry_points"], errors, _home(), digest, index, libraries)


def compile_rules(folder: Path) -> str:
    """Compile rules/ to one JSON string, for the wheel. Raises RulebookError."""
    return json.dumps(_compile(_own_files(folder)), ensure_ascii=False, separators=(",", ":"))


@cache
def _op_table(folder: Path) -> OpTable:
    from graphsafe.optable import OpTable

    return OpTable(folder)


def _home() -> Path:
    return _PACKAGED if _PACKAGED.is_dir() else _CHECKOUT


def _own() -> tuple[Mapping[str, Any], tuple[Rule, ...]]:
    """Return graphsafe's own data and rules."""
    packaged = _PACKAGED / COMPILED
    files = [(packaged, packaged.read_bytes())] if _home() == _PACKAGED else _own_files(_CHECKOUT)
    return _own_of(tuple(files))


@lru_cache(maxsize=1)
def _own_of(files: tuple[tuple[Path, bytes], ...]) -> tuple[Mapping[str, Any], tuple[Rule, ...]]:
    """Read graphsafe's own rules only once per process, because a process may scan many times."""
    data = json.loads(files[0][1]) if files[0][0].name == COMPILED else _compiled(files)
    return data, tuple(read(Rule, item) for item in data["rules"])


def _own_files(folder: Path) -> list[tuple[Path, bytes]]:
    return [(path, _content(path)) for path in sorted(folder.glob("*.yaml"))]


def _pack(pack: Path, root: Path | None, *, may_quote: bool) -> Mapping[str, Any]:
    """Return the data of a pack, which is a file or a folder of files. Raises RulebookError.

    A repository may name any file as a pack, for example one with the secrets of its CI, or a link to such a file. So
    the error quotes nothing from the file unless `may_quote`. If the pack is outside of `root`, the error does not even
    say what is wrong with the file.
    """
    try:
        found = sorted(path for path in pack.iterdir() if path.suffix in (".yaml", ".yml")) if pack.is_dir() else [pack]
    except OSError as error:
        raise RulebookError(f"{pack}: {error.strerror}") from None
    if not found:
        raise RulebookError(f"{pack}: no .yaml file in this folder")
    try:
        return _compiled([(path, _content(path)) for path in found])
    except RulebookError as error:
        text = str(error) if may_quote else str(error).partition(", got ")[0]
        if root is not None and any(leads_out(path, root) for path in found):
            text = f"{pack}: points outside the project, and holds no rules that graphsafe can read"
        raise RulebookError(text) from None


def _content(path: Path) -> bytes:
    try:
        return read_regular(path, MAX_HANDWRITTEN)
    except OSError as error:
        raise RulebookError(f"{path}: {error.strerror}") from None


def _compiled(files: Sequence[tuple[Path, bytes]]) -> Mapping[str, Any]:
    """Load rules from the user's cache, or compile them and store them there. A failure of the cache only costs
    time."""
    cached = user_cache() / f"rulebook-{_digest(files)}.txt"
    with contextlib.suppress(OSError, ValueError):
        checksum, _, known = read_regular(cached, MAX_COMPILED).decode("utf-8").partition("\n")
        if checksum == _checksum(known):
            data: Mapping[str, Any] = json.loads(known)
            return data
    fresh = _compile(files)
    with contextlib.suppress(OSError):
        cached.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(fresh, ensure_ascii=False, separators=(",", ":"))
        write_atomically(cached, f"{_checksum(text)}\n{text}")
        for old in sorted(cached.parent.glob("rulebook-*"), key=lambda path: -path.stat().st_mtime)[_KEPT:]:
            old.unlink()
    return fresh


def _checksum(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _digest(files: Iterable[tuple[Path, bytes]]) -> str:
    """Hash the files and rulefile.py, so that a change of rulefile.py also invalidates the cache."""
    digest = hashlib.blake2b(Path(rulefile.__file__).read_bytes(), digest_size=16)
    for path, content in files:
        digest.update(f"\0{path.name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


def _compile(files: Sequence[tuple[Path, bytes]]) -> dict[str, Any]:
    data: dict[str, Any] = {"digest": _digest(files), "rules": [], "entry_points": {}, "errors": [], "libraries": []}
    for path, content in files:
        if path.name == "engine-entry-points.yaml":
            data["entry_points"] = rulefile.read_entry_points(path, content)
        elif path.name == "errors.yaml":
            data["errors"] = rulefile.read_errors(path, content)
        elif path.name == "libraries.yaml":
            data["libraries"] = rulefile.read_libraries(path, content)
        else:
            data["rules"] += rulefile.read_rules(path, content)
    return data


def _tuple(value: Any) -> Any:
    """Turn lists into tuples, which JSON does not have."""
    return tuple(map(_tuple, value)) if isinstance(value, list) else value
