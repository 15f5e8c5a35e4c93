"""Finds the class of an object by the methods that a function calls on it.

In `learner.feed_data(batch)`, the object is of the only class in the project that defines `feed_data`. In
`space.allocate(n)` and `space.free(n)`, it is of the only class that defines both methods. If subclasses define them
too, the class is the base of all of them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from graphsafe.scan.domain.naming import CONTAINER_METHODS
from graphsafe.scan.sources.node_memo import inside, memoize_on_node
from graphsafe.scan.symbols.index import dotted
from graphsafe.scan.symbols.overrides import is_of_tests
from graphsafe.scan.symbols.project import Project

MAX_CLASSES = 40
"The largest number of classes that may define a method. A name with more definitions does not show the class."
_DEFINED = re.compile(rb"\n(?:class[ \t]+(\w+)|[ \t]+(?:async[ \t]+)?def[ \t]+([A-Za-z]\w*)\(\s*self\b)")
_SHARED = CONTAINER_METHODS | frozenset(
    "add_graph add_histogram add_image add_module add_param_group add_scalar add_scalars apply apply_gradients "
    "backward buffers children close compile cpu cuda debug double elapsed_time error eval extra_repr float flush "
    "forward from_pretrained get_buffer get_extra_state get_last_lr get_parameter get_rng_state get_state "
    "get_submodule half has_rsample info initial_seed is_alive load_state_dict log log_prob manual_seed modules "
    "named_buffers named_children named_modules named_parameters no_sync parameters prepare print put query read "
    "record record_event recv register_backward_hook register_buffer register_forward_hook "
    "register_forward_pre_hook register_full_backward_hook register_module register_parameter requires_grad_ result "
    "run sample save_pretrained scale send set set_description set_epoch set_extra_state set_postfix set_state "
    "share_memory start state_dict step stop submit summon_full_params synchronize to to_empty train type unscale_ "
    "wait wait_event wait_stream warning write zero_grad".split()
)
"""Methods of Python's containers, of torch's objects, and of common libraries. An unknown object with such a method may
be one of these."""


def classes_of(project: Project, body: ast.AST | None, receiver: ast.expr, method: str) -> Sequence[str]:
    """Return the classes of the object on which a function calls a method: one class, or a base and its subclasses.

    `body` is the function, or None at module level, and `receiver` is the object as written in it. The result is empty
    if the called methods do not show the class.
    """
    written = dotted(receiver) if body is not None else None
    called = frozenset((method,))
    if body is not None and written is not None:
        called = _methods_called(body).get(written, called)
    called -= _SHARED
    if method not in called:
        return ()
    # A name of two words is enough to show the class. Other projects and libraries also use short names such as
    # `update`, so a short name shows the class only together with another method.
    alone = _known_family(project, frozenset((method,))) if "_" in method else ()
    return alone or (_known_family(project, called) if len(called) > 1 else ())


@memoize_on_node
def _methods_called(body: ast.AST) -> Mapping[str, frozenset[str]]:
    """Return the names of the methods that a function calls on each object."""
    found: dict[str, set[str]] = {}
    for call in inside(body, ast.Call):
        receiver = dotted(call.func.value) if isinstance(call.func, ast.Attribute) else None
        if receiver is not None and isinstance(call.func, ast.Attribute):
            found.setdefault(receiver, set()).add(call.func.attr)
    return {receiver: frozenset(names) for receiver, names in found.items()}


def _known_family(project: Project, names: frozenset[str]) -> Sequence[str]:
    return project.files.table(("classes by methods", names), lambda: _family(project, names))


def _family(project: Project, names: frozenset[str]) -> Sequence[str]:
    """Return the classes that define all these methods. A common base comes first. Return nothing for unrelated
    classes."""
    defined = project.files.found_by("methods by name", _defined_in)
    places = set.intersection(*({*defined.get(name, ())} for name in names))
    classes = [*_classes(project, sorted(places), names)] if len(places) <= MAX_CLASSES else []
    bases = [one for one in classes if all(one in project.mro(other) for other in classes)]
    return (bases[0], *(other for other in classes if other != bases[0])) if len(bases) == 1 else ()


def _defined_in(data: bytes) -> Iterator[tuple[str, str]]:
    """Yield each method that a file defines, with the class above it in the text."""
    owner = ""
    for match in _DEFINED.finditer(b"\n" + data):
        if match[1]:
            owner = match[1].decode()
        elif owner:
            yield match[2].decode(), owner


def _classes(project: Project, places: Iterable[tuple[str, str]], names: frozenset[str]) -> Iterator[str]:
    for path, owner in places:
        file = project.files.index(path) if not is_of_tests(f"{path}::") else None
        facts = file.classes.get(owner) if file is not None else None
        if facts is not None and names <= facts.methods.keys():
            yield f"{path}::{owner}"
