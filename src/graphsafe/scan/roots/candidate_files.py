"""Chooses the files that are read first: files that may contain a root and may lead to the files to report on."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

from graphsafe.config import Config
from graphsafe.rulebook.book import Rulebook
from graphsafe.scan.execution.budget import Scope
from graphsafe.scan.hazards.capture_site import ANOTHER_DEVICE, CURRENT_DEVICE
from graphsafe.scan.interpreter.calls.handed_to_loops import all_loopers
from graphsafe.scan.roots.assumed_roots import may_be_assumed
from graphsafe.scan.roots.broken_files import missing_import
from graphsafe.scan.roots.factories import may_make_step
from graphsafe.scan.roots.hot_roots import EXPORTS, TESTS_AND_DATA
from graphsafe.scan.roots.importers import reading_plan
from graphsafe.scan.roots.loop_roots import IS_RUN, may_hold_loop
from graphsafe.scan.roots.step_names import StepNames, step_names, takes_surely
from graphsafe.scan.symbols.index import CAPTURE_WORDS, HANDING_OVER
from graphsafe.scan.symbols.project_files import Files

TARGETS = ""
"Stands for the configured targets in a list of paths."
# A search that begins with fixed characters, and looks back from there to the start of the word, is three times as
# fast.
DERIVED = re.compile(rb"class(?<!\wclass)[\s\\]+[^\s:(\[\\]+[\s\\]*[(\[]")
"Matches a class with a base. Every torch module is such a class."
CAPTURES: tuple[bytes, ...] = (
    *(b"cuda.graph", b"xpu.graph", b"npu.graph", b"accelerator.Graph"),
    *(b"CUDAGraph", b"make_graphed_callables", b"CudaGraphModule", b"capture_begin", b".replay()"),
    *(b"import vllm", b"from vllm", b"import sglang", b"from sglang"),
)
"Every file that captures, replays, or uses an engine with graphs contains one of these words."
COMPILES = re.compile(rb"""^[^#>\n]*\bmode=["']reduce-overhead""", re.M)
"""Matches code that asks torch.compile for graphs. It matches neither the word `reduce-overhead` without `mode=` nor an
example in a docstring."""
_CURRENT = re.compile(CURRENT_DEVICE.pattern.encode())
_ANOTHER = re.compile(ANOTHER_DEVICE.pattern.encode() + rb"|add_argument\([^()]{0,80}device")
"Matches code that uses more than one device, or that lets the user choose a device."
ONE_A_PROCESS = re.compile(
    rb"set_device(?:_index)?\([^()]{0,40}rank"
    rb"|(?i:rank\w*) % torch\.cuda\.device_count\(\)\n +torch\.cuda\.set_device\("
    rb"|def \w+\([^()]{0,60}rank\b[^()]{0,200}\)[^\n]{0,60}:\n(?:[^\n]*\n){0,3}? +torch\.cuda\.set_device\("
)
"""Matches code with which each process makes its own device the current device before a capture:
`torch.cuda.set_device(rank)`, or `torch.cuda.set_device(device)` at the beginning of the function that each rank
runs."""
OUTSIDE_STEPS = frozenset(
    "tests test testing conftest benchmarks examples scripts tools docs setup eval evals conversion convert".split()
)
"""Names of modules and packages whose functions no step calls. A module's name may have a suffix, as in
`convert_weights`."""
BESIDE_STEPS = re.compile(
    rf"{TESTS_AND_DATA}|{EXPORTS}|evals?|evaluation|collat(e|ors?)|demos?|gradio\w*|web_?ui"
    r"|(data_(transforms|pipeline)|input_pipeline)\w*|(\w+_)?bench(mark(s|ing)?)?(_\w+)?"
)
"""Matches modules and packages that test, evaluate, time or show results. Also matches those that prepare a step's
inputs, often in separate processes."""
SCRIPT = re.compile(
    r"(train|finetune|run|main|serve|server|infer|inference|app|cli|launch|generate|sample)(_\w+)?|\w+_train"
)
"Matches names of modules that start an application when they are run as a script."
TOOL = re.compile(r"(setup|conftest|noxfile|tasks|version\w*|release|build|bench\w*|test)(_\w+)?")
"Matches scripts at the top of a library that build or test the library."
PUBLIC = re.compile(rb"def (?<!\wdef )([A-Za-z]\w*|__call__)\(")
"Matches the definition of a public function."
_EXPORTING = re.compile(rb"^[ \t]*(from[ \t]+[\w.]+[ \t]+import|__all__\b)", re.M)
"Matches the names that a package exports to its users."
NEAR_TOP = 2
"""A package's `__init__.py` exports names to users if the package's path in the project has at most this many folders,
not counting a folder `src`."""
FEW = 10
"The files to report on are few if the project has more than `FEW` files for each of them."
MAX_READINGS = 4500
"""If only a few files are given, at most this number of functions is read for each of them. Reading this many functions
takes three to four seconds."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """The files to read, and the facts about the project that a text search finds."""

    paths: tuple[str, ...]
    "The files in the order of reading. The files to report on come first. TARGETS stands for the configured targets."
    public: frozenset[str]
    "Files whose public functions may be roots, because nothing in their package captures."
    applied: frozenset[str]
    """The `public` files of packages for which the project has scripts that train or run a model. Such scripts call the
    functions that steps need."""
    shows_uses: bool
    """Whether the project shows which of its code is used: it has scripts that train or run its code, or a package that
    exports names. Only then may a definition that nothing in the project names be unused."""
    beside_steps: frozenset[str]
    "Files of packages that contain tests, evaluations or the preparation of data."
    with_graphs: frozenset[str]
    "The files of packages that capture or replay graphs themselves, or that use an engine with graphs."
    chooses_device: bool
    "Whether the project changes the current device. Each of its processes then has its own device."
    on_one_device: frozenset[str]
    """The files whose work is all on one device: those of programs that use only the current device. If each process of
    the project chooses a device by its rank, the set contains all files."""
    scope: Scope | None
    "The files and the number of functions that may be read, or None if the whole project is read."
    step_names: StepNames
    "The names of the project's functions that replay or train."
    broken: Mapping[str, Sequence[str]]
    """Missing module -> the files that cannot be imported because they import it. These files are not searched for
    roots."""


@dataclass(frozen=True, slots=True)
class RootPatterns:
    """The words in a file, or in the name of a function, that may indicate a root."""

    names: tuple[str, ...]
    words: tuple[bytes, ...]
    """Every file that contains a capture, a replay, a promise about graphs, or a comment for this tool contains one of
    these words."""
    anywhere: bool
    "Whether the configured patterns may match functions with any name."
    named: tuple[bytes, ...]
    """Names of functions that engines call. A file with a root contains one of `words` or one of these names, unless
    the root is a class."""
    defined: re.Pattern[bytes]
    "Matches the definition of a function with one of these names."

    def may_be_in(self, data: bytes) -> bool:
        """Return whether a file may contain a root. Searching for each word is three times as fast as using a
        pattern."""
        return (
            (b"forward" in data and DERIVED.search(data) is not None)
            or any(word in data for word in self.words)
            or (any(name in data for name in self.named) and self.defined.search(data) is not None)
            or may_be_assumed(data)
            or may_make_step(data)
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


def depth_of(path: str, top: str) -> int:
    """Return the number of folders between the top of the project and a file. A folder `src` does not count."""
    return sum(one != "src" for one in Path(os.path.relpath(path, top)).parts[:-1])


def find_candidates(files: Files, wanted: Sequence[str], config: Config, root_patterns: RootPatterns) -> Candidates:
    """Choose the files that may lead to the `wanted` files. Files that cannot be opened become problems of `files`."""
    # If the wanted files are few, only the files that lead to them are read.
    if len(wanted) * FEW < len(files.names):
        sources = {path: data for path in files.names if (data := files.data(path)) is not None}
        plan = reading_plan(files, wanted, sources, _definitions(root_patterns.names).search)
        candidates: Sequence[str] = plan.candidates
        scope = None if plan.is_complete else Scope(plan.scope, MAX_READINGS * len(wanted))
    else:
        candidates = list(dict.fromkeys([*wanted, *files.names]))
        scope = None
    packages = _by_package(files)
    beside = frozenset(path for package, paths in packages.items() for path in paths if _is_beside(path, package))
    capturing = frozenset(_with(packages, files, may_capture))
    public: frozenset[str] = frozenset()
    if not config.targets:
        public = frozenset(
            path
            for package in packages.keys() - capturing - {""}
            for path in packages[package]
            if not _is_outside(path, package) and b"torch" in (files.data(path) or b"")
        )
    top = os.path.commonpath(files.names) if files.names else ""
    scripts = [path for path in files.names if _is_script(os.path.relpath(path, top), files.data(path) or b"")]
    applied = frozenset(_applied(packages, files, public, scripts))
    names = step_names(dict(_taking_steps(packages, files)))
    loopers = [f"{name}(".encode() for name in sorted(all_loopers(files))]
    found: list[str] = []
    broken: dict[str, list[str]] = {}
    for path in candidates:
        data = files.data(path)
        if data is None:
            continue
        if (
            root_patterns.anywhere
            or root_patterns.may_be_in(data)
            or may_hold_loop(data, names)
            or any(call in data for call in loopers)
            or (path in public and PUBLIC.search(data) is not None)
        ):
            missing = missing_import(path, files, data)
            if missing is None:
                found.append(path)
            else:
                broken.setdefault(missing, []).append(path)
    with_graphs = frozenset(path for package in capturing for path in packages[package])
    chooses_device = any(True for _ in _with(packages, files, _may_choose_device))
    by_rank = any(True for _ in _with(packages, files, _may_choose_by_rank))

    def exports(path: str) -> bool:
        is_near_top = os.path.basename(path) == "__init__.py" and 0 < depth_of(path, top) <= NEAR_TOP
        return is_near_top and _EXPORTING.search(files.data(path) or b"") is not None

    shows_uses = bool(scripts) or any(map(exports, files.names))
    one_device = frozenset(files.names if by_rank else _of_current_device(packages, capturing, files, scripts))
    paths = (*found, TARGETS) if config.targets else tuple(found)
    return Candidates(
        paths,
        public,
        applied,
        shows_uses,
        beside,
        with_graphs,
        chooses_device,
        one_device,
        scope,
        names,
        broken,
    )


def _by_package(files: Files) -> Mapping[str, Sequence[str]]:
    """Return the files by their outermost package. Files in no package are listed together, under an empty name."""
    regular: dict[str, list[str]] = {}
    for path in files.names:
        regular.setdefault(_outermost(path, files), []).append(path)
    top = Path(os.path.commonpath(files.names)) if files.names else Path()
    found: dict[str, list[str]] = {}
    for package, paths in regular.items():
        found.setdefault(_around(package, paths, top, files) if package else "", []).extend(paths)
    return found


def _around(package: str, paths: Sequence[str], top: Path, files: Files) -> str:
    """Return a folder around a package, up to `top`, if the package's own imports contain the folder's name. If there
    are several such folders, return the outermost one. If there is none, return the package.

    Such a folder has no `__init__.py`, but Python can import it as a namespace package.
    """
    found = package
    for folder in Path(package).parents:
        if not folder.is_relative_to(top):
            break
        name = folder.name
        words = f"from {name}.".encode(), f"import {name}.".encode()
        # If there is a regular package of that name, the imports refer to that package.
        if str(folder / name / "__init__.py") not in files.names and any(
            word in (files.data(path) or b"") for path in paths for word in words
        ):
            found = str(folder)
    return found


def _with(packages: Mapping[str, Sequence[str]], files: Files, does: Callable[[bytes], bool]) -> Iterator[str]:
    """Yield the packages that contain a file for which `does` is true. Files that never run in steps (tests, examples)
    are ignored."""
    for package, paths in packages.items():
        if any(not _is_outside(path, package) and does(files.data(path) or b"") for path in paths):
            yield package


def _taking_steps(packages: Mapping[str, Sequence[str]], files: Files) -> Iterator[tuple[str, bytes]]:
    """Yield the paths and contents of the files that replay or train, except files that never run in steps (tests,
    examples)."""
    for package, paths in packages.items():
        for path in paths:
            data = files.data(path) or b""
            if takes_surely(data) and not _is_outside(path, package):
                yield path, data


def _is_outside(path: str, package: str) -> bool:
    """Return whether a file of a package never runs in steps (tests, examples). The names of the file, of its folders
    and of the folder around the package show this."""
    if not package:
        return False
    around = Path(package).parent
    inside = Path(path).relative_to(around).with_suffix("").parts
    begins = inside[-1].partition("_")[0]
    return not OUTSIDE_STEPS.isdisjoint((around.name, *inside, begins))


def _is_beside(path: str, package: str) -> bool:
    """Return whether a file of a package contains tests or evaluations, or prepares data."""
    parts = Path(path).relative_to(Path(package).parent).with_suffix("").parts if package else ()
    return any(map(BESIDE_STEPS.fullmatch, parts))


def _applied(
    packages: Mapping[str, Sequence[str]], files: Files, public: Set[str], scripts: Sequence[str]
) -> Iterator[str]:
    """Yield the files of packages that a script of the project uses or contains."""
    if not public:
        return
    top = os.path.commonpath(files.names)
    for package, paths in packages.items():
        # A script in a folder above the package may name the folders in between: `from src.engine import Engine`.
        around, name = Path(os.path.relpath(Path(package).parent, top)).parts, Path(package).name
        folders = re.escape("".join(f"{folder}." for folder in around)).encode()
        named = re.compile(rb"^\s*(?:from|import) (?:%s)?%s\b" % (folders, re.escape(name).encode()), re.M)
        if package and any(path.startswith(f"{package}/") or named.search(files.data(path) or b"") for path in scripts):
            yield from (path for path in paths if path in public)


def _of_current_device(
    packages: Mapping[str, Sequence[str]], capturing: Set[str], files: Files, scripts: Sequence[str]
) -> Iterator[str]:
    """Yield the files of programs that capture and use only the current device.

    A program is a package with its own scripts and those that import it, or the modules of a folder that is no package.
    A package without such a script is a library, whose users may choose any device.
    """
    for package in capturing:
        folders: dict[str, list[str]] = {}
        for path in packages[package]:
            folders.setdefault(package or os.path.dirname(path), []).append(path)
        for paths in folders.values():
            named = re.compile(rb"^\s*(?:from|import) (?:\w+\.)*%s\b" % re.escape(Path(package).name).encode(), re.M)
            users = [one for one in scripts if package and (one in paths or named.search(files.data(one) or b""))]
            program = [files.data(path) or b"" for path in (*paths, *users)]
            if (
                (users or (not package and any(IS_RUN in data for data in program)))
                and not any(map(_ANOTHER.search, program))
                and any(map(_CURRENT.search, program))
            ):
                yield from paths


def _is_script(path: str, data: bytes) -> bool:
    """Return whether a file is a script at the top of the project, or a script whose name says that it runs a model."""
    folders, stem = Path(path).parts[:-1], Path(path).stem
    is_named = SCRIPT.fullmatch(stem) is not None and (OUTSIDE_STEPS - {"scripts"}).isdisjoint(folders)
    is_script = is_named or (not folders and TOOL.fullmatch(stem) is None)
    return is_script and IS_RUN in data


def may_capture(data: bytes) -> bool:
    return any(word in data for word in CAPTURES) or (b"reduce-overhead" in data and COMPILES.search(data) is not None)


def _may_choose_device(data: bytes) -> bool:
    return b"set_device(" in data or b"set_device_index(" in data


def _may_choose_by_rank(data: bytes) -> bool:
    return _may_choose_device(data) and ONE_A_PROCESS.search(data) is not None


def _outermost(path: str, files: Files) -> str:
    """Return the folder of a file's outermost package, or an empty string if the file is in no package."""
    package, folder = "", os.path.dirname(path)
    while os.path.join(folder, "__init__.py") in files.names:
        package, folder = folder, os.path.dirname(folder)
    return package


def _definitions(names: Iterable[str]) -> re.Pattern[bytes]:
    """Return a pattern for definitions of roots. It does not match a file that only mentions a root's name."""
    captures = "|".join(map(re.escape, CAPTURE_WORDS))
    return re.compile(rf"def (?:{'|'.join(map(re.escape, names))})\b|graphsafe: hot|{captures}".encode())
