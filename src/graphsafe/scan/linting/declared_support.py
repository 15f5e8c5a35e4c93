"""Finds classes that declare support for CUDA graphs although their own hot paths contain errors."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache

from graphsafe.report.model import Confidence
from graphsafe.scan.domain.events import Event, span_of
from graphsafe.scan.domain.record import Place
from graphsafe.scan.linting.call_graph import CallGraph
from graphsafe.scan.symbols.index import ClassFacts, FileIndex
from graphsafe.scan.symbols.project import Project, ref_of

FLAG = re.compile(r"_?(supports?_cuda_?graphs?|cuda_?graphs?_support(ed)?|is_cuda_?graph_(safe|compatible|capturable))")
"""Matches vLLM's `_cudagraph_support` on metadata builders, and the names that other projects use to declare this
support."""
REFUSALS = frozenset(("NEVER", "NONE", "NO", "UNSUPPORTED", "DISABLED", "False", "None"))
WHOLE = frozenset(("ALWAYS", "FULL", "True"))
"""Values that declare support for every batch. Other values declare support only for decoding, and decoding does not
run every line.
"""


def events(
    project: Project, calls: CallGraph, hazards: Mapping[str, Sequence[str]], paths: Iterable[str]
) -> Iterator[tuple[Place, Event]]:
    """Yield an event for each flag that declares support although the class has errors. `hazards` maps each hot
    function to the codes of its errors."""
    implementations = cache(lambda: _implementations(project, paths))
    for path in paths:
        file = project.files.index(path)
        for cls in file.classes.values() if file is not None else ():
            flag = next((name for name in cls.fields if FLAG.fullmatch(name)), None)
            node = project.files.statement(path, *cls.fields[flag]) if flag is not None else None
            promise = _promise(node)
            if flag is None or node is None or promise is None or promise in REFUSALS:
                continue
            subject, own = f"{path}::{cls.name}", True
            if _step(project, subject) is None:
                subject, own = implementations().get(subject, subject), False
            codes = sorted(_on_hot_path(project, subject, calls, hazards))
            if codes:
                confidence: Confidence = "likely" if own or promise in WHOLE else "possible"
                words = {"expr": f"{flag} = {promise}", "value": f"`{promise}`", "codes": ", ".join(codes)}
                span = span_of(node)
                event = Event("AttrWrite", "declared", span, confidence, None, None, words)
                yield Place(path, cls.name, span, event.kind, event.how), event


def _promise(node: ast.stmt | None) -> str | None:
    value = getattr(node, "value", None)
    if isinstance(value, ast.Attribute):
        return value.attr
    return str(value.value) if isinstance(value, ast.Constant) else None


def _step(project: Project, ref: str) -> str | None:
    return next(
        (method for name in ("forward", "__call__", "apply") if (method := project.find_method(ref, name)) is not None),
        None,
    )


def _on_hot_path(project: Project, ref: str, calls: CallGraph, hazards: Mapping[str, Sequence[str]]) -> set[str]:
    """Return the codes of the errors in code that the step of a class reaches."""
    step = _step(project, ref)
    if step is None:
        return set()
    family = set(project.mro(ref))
    found: set[str] = set()
    seen, stack = {step}, [step]
    while stack:
        function = stack.pop()
        found.update(hazards.get(function, ()))
        for callee in calls.unguarded(function):
            if callee not in seen and not _is_siblings(project, callee, family):
                seen.add(callee)
                stack.append(callee)
    return found


def _is_siblings(project: Project, ref: str, family: set[str]) -> bool:
    """Return whether a method belongs to another subclass of a shared base. The class whose bases are in `family` never
    runs such a method."""
    facts = project.function_facts(ref)
    if facts is None or facts.owner is None:
        return False
    owner = f"{ref.partition('::')[0]}::{facts.owner}"
    return owner not in family and any("::" in base and base in family for base in project.mro(owner))


def _implementations(project: Project, paths: Iterable[str]) -> dict[str, str]:
    """Map vLLM's metadata builders to the implementations whose steps they prepare. A backend class names both."""
    found: dict[str, str] = {}
    for path in paths:
        file = project.files.index(path)
        for cls in file.classes.values() if file is not None else ():
            if cls.methods.keys() >= {"get_builder_cls", "get_impl_cls"}:
                assert file is not None
                builder = _named_class(project, file, cls, "get_builder_cls")
                implementation = _named_class(project, file, cls, "get_impl_cls")
                if builder is not None and implementation is not None:
                    found[builder] = implementation
    return found


def _named_class(project: Project, file: FileIndex, cls: ClassFacts, method: str) -> str | None:
    """Return the class that a one-line method returns, or None for any other method."""
    node = project.function_node(f"{file.path}::{cls.methods[method]}")
    last = node.body[-1] if node is not None else None
    if not isinstance(last, ast.Return) or not isinstance(last.value, ast.Name):
        return None
    return ref_of(project.resolve(file, last.value.id), "class")
