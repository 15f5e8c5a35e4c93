"""Which files are read first: those whose text may hold a root and that may lead to the files to report on."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from graphsafe.config import Config
from graphsafe.rulebook import Rulebook
from graphsafe.scan.interpreter.calls.budget import Scope
from graphsafe.scan.roots.assumed_roots import may_be_assumed
from graphsafe.scan.roots.importers import reading_plan
from graphsafe.scan.symbols.index import CAPTURE_WORDS, HANDING_OVER
from graphsafe.scan.symbols.project_files import Files

TARGETS = ""
"In place of a file's path: what configured targets return."
MODULE = b"forward"
# A search that begins with plain text, and looks back from there to the start of the word, is three times as fast.
DERIVED = re.compile(rb"class(?<!\wclass)[\s\\]+[^\s:(\[\\]+[\s\\]*[(\[]")
"What a torch module is: a class that has a base."
CAPTURES: tuple[bytes, ...] = (
    *(b"cuda.graph", b"CUDAGraph", b"make_graphed_callables", b"capture_begin", b".replay()"),
    *(b"import vllm", b"from vllm", b"import sglang", b"from sglang"),
)
"One of these is in every other text that captures, replays, or is built on an engine that does."
COMPILES = re.compile(rb"""^[^#>\n]*\bmode=["']reduce-overhead""", re.M)
"What asks torch.compile for graphs, in code: an option that users may set, and an example, capture nothing."
CHOOSES_DEVICE = b"set_device(", b"set_device_index("
"One of these is in every text that makes another device the current one."
OUTSIDE_STEPS = frozenset(
    "tests test testing conftest benchmarks examples scripts tools docs setup eval evals conversion convert".split()
)
"Modules and packages whose functions nobody calls in a step."
PUBLIC = re.compile(rb"def (?<!\wdef )([A-Za-z]\w*|__call__)\(")
"The definition of a public function."
FEW = 10
"The files to report on are few if they are less than one in so many of the project."
MAX_READINGS = 2700
"How many functions are read for each of a few files: two to three seconds."


@dataclass(frozen=True, slots=True)
class Candidates:
    paths: tuple[str, ...]
    "In the order of reading, those to report on first; TARGETS among them stands for configured targets."
    public: frozenset[str]
    "Those whose public functions may be roots, since nothing in their package captures."
    with_graphs: frozenset[str]
    "The files of packages that capture or replay graphs themselves, or are built on an engine that does."
    chooses_device: bool
    "Whether the project makes another device the current one: each of its processes has its own, then."
    scope: Scope | None
    "None where the whole project is read."


@dataclass(frozen=True, slots=True)
class RootPatterns:
    """The words by which a file's text, or a function's name, may tell of a root."""

    names: tuple[str, ...]
    words: tuple[bytes, ...]
    "One of them is in every file that holds a capture, a replay, a promise about graphs, or a comment for this tool."
    anywhere: bool
    "Configured patterns may name any function."
    named: tuple[bytes, ...]
    "What engines call: one of them is in every other file that holds a root, unless a class is one."
    defined: re.Pattern[bytes]
    "What defines one of these."

    def may_be_in(self, data: bytes) -> bool:
        """Whether a file's text may hold a root: to search for each word is three times as fast as a pattern."""
        return (
            (MODULE in data and DERIVED.search(data) is not None)
            or any(word in data for word in self.words)
            or (any(name in data for name in self.named) and self.defined.search(data) is not None)
            or may_be_assumed(data)
        )


def root_patterns(config: Config, rulebook: Rulebook) -> RootPatterns:
    names = sorted({entry.partition("(")[0].rpartition(".")[2] for entry in rulebook.entry_points})
    words = ("cuda_graph", "cudagraph", *CAPTURE_WORDS, *HANDING_OVER, ".replay(", "graphsafe:")
    defined = re.compile(rf"def(?<!\wdef)[\s\\]+(?:{'|'.join(map(re.escape, names))})\b".encode())
    return RootPatterns(
        ("forward", *names),
        tuple(word.encode() for word in words),
        any(config.hot_paths),
        tuple(name.encode() for name in names),
        defined,
    )


def find_candidates(files: Files, wanted: Sequence[str], config: Config, root_patterns: RootPatterns) -> Candidates:
    """`wanted`: the files to report on. Files that cannot be opened are noted among the problems of `files`."""
    if are_few(wanted, files):
        sources = {path: data for path in files.names if (data := files.data(path)) is not None}
        files.held = sources
        plan = reading_plan(files, wanted, sources, _definitions(root_patterns.names).search)
        candidates: Sequence[str] = plan.candidates
        scope = None if plan.is_complete else Scope(plan.scope, MAX_READINGS * len(wanted))
    else:
        candidates = list(dict.fromkeys([*wanted, *files.paths]))
        scope = None
    packages = _by_package(files)
    capturing = frozenset(_with(packages, files, may_capture))
    public: frozenset[str] = frozenset()
    if not (config.hot_paths or config.targets):
        others = (package for package in packages if package and package not in capturing)
        public = frozenset(path for package in others for path in _using_torch(files, package, packages[package]))
    found: list[str] = []
    for path in candidates:
        data = files.data(path)
        if data is not None and (
            root_patterns.anywhere
            or root_patterns.may_be_in(data)
            or (path in public and PUBLIC.search(data) is not None)
        ):
            found.append(path)
    with_graphs = frozenset(path for package in capturing for path in packages[package])
    chooses_device = any(True for _ in _with(packages, files, may_choose_device))
    return Candidates((*found, TARGETS) if config.targets else tuple(found), public, with_graphs, chooses_device, scope)


def _by_package(files: Files) -> Mapping[str, Sequence[str]]:
    """The files by the outermost package that holds them; those in none are together."""
    found: dict[str, list[str]] = {}
    for path in files.names:
        found.setdefault(_outermost(path, files), []).append(path)
    return found


def _with(packages: Mapping[str, Sequence[str]], files: Files, does: Callable[[bytes], bool]) -> Iterator[str]:
    """The packages of which one file does something, by its text; tests, examples and the like do not count."""
    for package, paths in packages.items():
        if any(not _is_outside(path, package) and does(files.data(path) or b"") for path in paths):
            yield package


def _is_outside(path: str, package: str) -> bool:
    """Whether a file of a package holds tests, examples or the like; the folder around the package counts, too."""
    if not package:
        return False
    around = Path(package).parent
    inside = Path(path).relative_to(around).with_suffix("").parts
    return inside[-1].startswith("test_") or not OUTSIDE_STEPS.isdisjoint((around.name, *inside))


def _using_torch(files: Files, package: str, paths: Sequence[str]) -> Iterator[str]:
    """The files of a package that use torch, without its tests, examples and the like."""
    return (path for path in paths if not _is_outside(path, package) and b"torch" in (files.data(path) or b""))


def may_capture(data: bytes) -> bool:
    return any(word in data for word in CAPTURES) or (b"reduce-overhead" in data and COMPILES.search(data) is not None)


def may_choose_device(data: bytes) -> bool:
    return any(call in data for call in CHOOSES_DEVICE)


def _outermost(path: str, files: Files) -> str:
    """The folder of the package that holds a file and that no other package holds; empty for a file in none."""
    package, folder = "", str(Path(path).parent)
    while str(Path(folder, "__init__.py")) in files.names:
        package, folder = folder, str(Path(folder).parent)
    return package


def are_few(wanted: Sequence[str], files: Files) -> bool:
    """Whether it pays to find out which of the other files lead to these."""
    return len(wanted) * FEW < len(files.names)


def _definitions(names: Iterable[str]) -> re.Pattern[bytes]:
    """A pattern for definitions of roots; other words may stand in a file that only mentions one."""
    captures = "|".join(map(re.escape, CAPTURE_WORDS))
    return re.compile(rf"def (?:{'|'.join(map(re.escape, names))})\b|graphsafe: hot|{captures}".encode())
