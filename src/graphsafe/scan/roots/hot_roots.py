"""Roots: the functions at which hot code (code that runs in every step) begins."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Sequence as Seq
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from graphsafe.report.model import Region
from graphsafe.scan.domain.record import AROUND_GRAPHS, COMPILED, ENTRY_POINT
from graphsafe.scan.domain.values import Instance, Value
from graphsafe.scan.execution.frame import Engine
from graphsafe.scan.sources.node_memo import inside, memoize_method
from graphsafe.scan.symbols.index import FileIndex, FunctionFacts

if TYPE_CHECKING:
    from graphsafe.config import Config, FunctionPattern

COLD_NAMES = frozenset(
    (
        "__init__ __post_init__ __new__ __del__ __getstate__ __setstate__ extra_repr load_weights "
        "weight_loader state_dict load_state_dict _load_from_state_dict reset_parameters init_weights _init_weights "
        "post_init from_pretrained save_pretrained process_weights_after_loading tie_weights register_hooks"
    ).split()
)
"Functions that run before the first step, or that save or load a checkpoint."
OTHER_HARDWARE = re.compile(
    r"(?<![^_.])(npu|xpu|ipex|hpu|gaudi|tpu|musa|ascend|mlx|amx|mindspore|forward_cpu)(?![^_.])"
    r"|(NPU|Npu|XPU|Xpu|HPU|Hpu|TPU|Tpu|MUSA|MLX|AMX|Ascend)(?![a-z])"
)
"""Matches words in names of modules, classes and functions. Such a word shows that the code is for hardware without
CUDA graphs."""
HOST_MODULE = re.compile(r"(?<![^_.])cpu(?![^_.])")
MOVING_MODULE = re.compile(r"gpu|cuda|offload|transfer|connector")
"""Matches modules that move data between host and device. Such a module is also for CUDA, even if its name contains the
name of other hardware."""
PREPARING_MODULE = re.compile(r"(^|\.)(processors\.|((image|video)_)?processing_|feature_extraction_|tokenization_)")
"Matches modules that prepare a step's inputs before the step runs."
COLD_BEGINNINGS = ("load_", "test_", "profile_", "_profile", "warmup", "warm_up", "_warmup", "_warm_up")
TESTS_AND_DATA = r"(unit_?)?tests?|testing|(\w+_)?datasets?|data_?loaders?|(data_?)?preprocess(ing|ors?)?"
"Matches names of modules and packages that test, or that prepare a step's data."
EXPORTS = r"export(s|ers?)?"
"Matches folders of code that exports modules to other formats."
_BESIDE_MODULES = re.compile(rf"{TESTS_AND_DATA}|data|{EXPORTS}")
"Matches folders whose modules are not roots. Steps run such a module only if other hot code calls it."
_EVALUATIONS = re.compile(r"eval(s|uations?)?|bench(marks?|marking)?")
"Matches folders of evaluations and of benchmarks. Only files that replay graphs are steps there."
_BESIDE_FILE = re.compile(
    rf"tests?_\w+|\w+_tests?(_\w+)?|conftest|(export|convert|onnx|eval\w*)_\w+|\w+_onnx|{EXPORTS}"
)
"Matches names of files that test or evaluate modules, or export them to other formats."
FORWARD = "forward of a torch module"
METRIC = "update or compute of a metric"
MEASURING = re.compile(r"(^|[._])metrics?$")
"Matches modules of metrics, which measure a model's results outside the step."
BY_LIBRARY = "a method that a library's base class calls in every step, around graphs"
"The reason that is given when a hook of a trainer or environment is a root."
COLD_PATHS = "cold-paths names it"
HOT_PATH = "named in hot-paths"
HOT_PATH_AROUND = "named in hot-paths, around graphs"
COLD_ENDINGS = ("weight_loader", "_load_weights")
COLD_WORDS = re.compile(
    r"^_?capture(_model|_\w*graphs?(_|$)\w*)?$|(?<![^_])(save_(?:model|weights|checkpoint|ckpt|state|safetensors|hf|lora|adapters?)|state_dict$|dummy|teardown|shutdown|destroy|recover|fault|failover|scale_up|scale_down)(?![^_])"
)
"""Matches words in names of functions that make the graphs, save weights, end or resize the process, or restart after a
failure."""


@cache
def is_for_other_hardware(name: str) -> bool:
    return OTHER_HARDWARE.search(name) is not None


@cache
def is_other_module(module: str) -> bool:
    is_other = is_for_other_hardware(module) or HOST_MODULE.search(module) is not None
    return is_other and MOVING_MODULE.search(module) is None


@cache
def is_beside_modules(path: str, replays: bool = False) -> bool:
    """Return whether a file's folders or name show that it contains tests, evaluations or exports, or prepares data on
    the host."""
    *folders, name = path.removesuffix(".py").split("/")
    evaluates = not replays and any(map(_EVALUATIONS.fullmatch, folders))
    return evaluates or any(map(_BESIDE_MODULES.fullmatch, folders)) or _BESIDE_FILE.fullmatch(name) is not None


class HotnessRules:
    """Tells, from the configuration and marks, whether a function is hot or cold."""

    def __init__(self, config: Config) -> None:
        self._config = config

    @memoize_method
    def relative(self, path: str) -> str:
        try:
            return Path(path).relative_to(self._config.root).as_posix()
        except ValueError:
            return Path(path).as_posix()

    @memoize_method
    def _in_project(self, path: str, module: str) -> str:
        """Return the file's path in the project, separated by dots.

        Folders above the package are included, because their names may show the file's purpose.
        """
        place = self.relative(path)
        return module if place.startswith(("/", "..")) else place.removesuffix(".py").replace("/", ".")

    def is_cold(self, path: str, module: str, facts: FunctionFacts) -> bool:
        return self.cold_because(path, module, facts) is not None

    def cold_because(self, path: str, module: str, facts: FunctionFacts) -> str | None:
        """Return why a function does not run in a step, or None.

        A `hot-paths` pattern with a function's full name takes precedence over patterns of `cold-paths`, and over names
        that usually mean a cold function.
        """
        if facts.mark is not None:
            return "`# graphsafe: cold` marks it" if facts.mark == "cold" else None
        why = self._usually_cold_because(path, module, facts)
        if why is not None and self._names(self._config.hot_paths, path, module, facts):
            return COLD_PATHS if self._names(self._config.cold_paths, path, module, facts) else None
        return why

    def _names(self, patterns: Iterable[FunctionPattern], path: str, module: str, facts: FunctionFacts) -> bool:
        return any(pattern.names(self.relative(path), module, facts.name) for pattern in patterns)

    def _usually_cold_because(self, path: str, module: str, facts: FunctionFacts) -> str | None:
        name = facts.name.rpartition(".")[2]
        if name in COLD_NAMES or name.startswith(COLD_BEGINNINGS) or name.endswith(COLD_ENDINGS):
            return f"functions with a name such as `{name}` run before the first step"
        if COLD_WORDS.search(name):
            return f"functions with a name such as `{name}` run outside of the steps"
        if is_for_other_hardware(facts.name) or is_other_module(self._in_project(path, module)):
            return "its name says that it is for hardware without CUDA graphs"
        if PREPARING_MODULE.search(module):
            return "modules with such a name make a step's inputs before the step"
        if any(pattern.matches(self.relative(path), module, facts.name) for pattern in self._config.cold_paths):
            return COLD_PATHS
        return None

    def hot_because(self, path: str, module: str, facts: FunctionFacts) -> str | None:
        """Return the mark or setting that makes a function hot, or None."""
        if facts.mark == "hot":
            return "marked hot"
        named = [
            pattern.region
            for pattern in self._config.hot_paths
            if pattern.matches(self.relative(path), module, facts.name)
        ]
        return None if not named else HOT_PATH if "captured" in named else HOT_PATH_AROUND

    def is_compiled(self, path: str, module: str, facts: FunctionFacts) -> bool:
        """Return whether the configuration says that a hot function runs under torch.compile."""
        patterns = [pattern for pattern in self._config.hot_paths if pattern.compiled]
        return any(pattern.matches(self.relative(path), module, facts.name) for pattern in patterns)


def is_graphed(facts: FunctionFacts) -> bool:
    """Return whether a decorator compiles a function to CUDA graphs."""
    return any(name.endswith(("(reduce-overhead)", "(max-autotune)")) for name in facts.decorators)


def roots_of(
    engine: Engine, file: FileIndex, paths: HotnessRules, entry_points: Mapping[str, Region]
) -> Iterator[tuple[str, Value | None, str]]:
    """Yield function, receiver and reason of every root that a file defines."""
    is_beside = is_beside_modules(paths.relative(file.path))
    reason = METRIC if MEASURING.search(file.module) is not None else FORWARD
    for cls in file.classes.values():
        ref = f"{file.path}::{cls.name}"
        # Tests call the modules that they define, and users do not capture such modules.
        if is_beside or not engine.attributes.is_module(ref):
            continue
        # Calling a module runs its own `__call__`, if it has one, before `forward`.
        for name in ("__call__", "forward"):
            method = engine.project.find_method(ref, name)
            if method is not None and cls.methods:
                facts = engine.project.function_facts(method)
                if facts is not None and not paths.is_cold(file.path, file.module, facts):
                    yield method, Instance(ref), reason
    methods = _methods(frozenset(entry_points))
    for facts in file.functions.values():
        ref = f"{file.path}::{facts.name}"
        # The method may be called on an instance of a subclass.
        receiver = Instance(f"{file.path}::{facts.owner}", declared=True) if facts.owner is not None else None
        if paths.is_cold(file.path, file.module, facts):
            continue
        if (why := paths.hot_because(file.path, file.module, facts)) or (
            why := _entered_because(engine, ref, entry_points, methods)
        ):
            yield ref, receiver, why
        elif is_graphed(facts):
            yield ref, receiver, f"{COMPILED} that captures"


def _entered_because(
    engine: Engine, ref: str, entry_points: Mapping[str, Region], methods: Mapping[str, Seq[tuple[str, str, str]]]
) -> str | None:
    """Return the reason why an entry point is hot, or None if the function is not an entry point. An entry point may be
    named by the function's own name or by the name of a base class's method that the function overrides."""
    qualified = ref.partition("::")[2]
    owner, name = ref.rpartition(".")[0], qualified.rpartition(".")[2]
    entries = [(name, "", name)] if name in entry_points else [*methods.get(name, ())]
    bases = engine.project.mro(owner)[1:] if entries and "::" in owner else ()
    inherited = [f"{re.split(r'::|[.]', base)[-1]}.{name}" for base in bases]
    for pattern, parameter, entry in entries:
        is_own = name == pattern or fnmatchcase(qualified, pattern)
        if not is_own and not any(fnmatchcase(one, pattern) for one in inherited):
            continue
        node = engine.project.function_node(ref) if parameter else None
        if not parameter or (node is not None and any(one.arg == parameter for one in inside(node.args, ast.arg))):
            return ENTRY_POINT if entry_points[entry] == "captured" else AROUND_GRAPHS if is_own else BY_LIBRARY
    return None


@cache
def _methods(entry_points: frozenset[str]) -> Mapping[str, Seq[tuple[str, str, str]]]:
    """Map the last part of each entry point's name to the patterns that end in this part. Each pattern comes with its
    required parameter and with the whole entry."""
    found: dict[str, list[tuple[str, str, str]]] = {}
    for entry in sorted(entry_points):
        pattern, _, parameter = entry.rstrip(")").partition("(")
        owner, _, name = pattern.rpartition(".")
        if owner:
            found.setdefault(name, []).append((pattern, parameter, entry))
    return found
