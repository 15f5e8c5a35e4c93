"""Facts that the first round of reading finds and the second round needs. The facts of all processes are joined."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from graphsafe.scan.domain.summary import Field
from graphsafe.scan.domain.values import Tensor, Value

Reason = tuple[int, int, str]
"""The reason why a function is a root: the rank of the reason, the rank of the way in which the root was found, and the
words to show. If there are several reasons, the smallest tuple is shown."""
NO_REASON: Reason = (0, 0, "")


@dataclass(frozen=True, slots=True)
class Learnt:
    """Facts from the first round that the second round needs."""

    whys: Mapping[str, Reason]
    "Root function -> the reason why it is a root."
    passed: Mapping[str, Mapping[str, Sequence[Tensor]]]
    "Method's name -> parameter -> the tensors that calls of unknown methods with this name pass to it."
    constructions: Mapping[Field, Sequence[Value]]
    "Attribute or constructor parameter of a class -> the values that calls of the class give to it."


def learnt_together(parts: Sequence[Learnt]) -> Learnt:
    """Join the facts of several processes."""
    passed: dict[str, dict[str, list[Tensor]]] = {}
    built: dict[Field, dict[str, Value]] = {}
    for part in parts:
        for method, parameters in part.passed.items():
            for name, tensors in parameters.items():
                passed.setdefault(method, {}).setdefault(name, []).extend(tensors)
        for key, values in part.constructions.items():
            built.setdefault(key, {}).update((repr(value), value) for value in values)
    constructions = {key: [values[text] for text in sorted(values)] for key, values in built.items()}
    return Learnt(whys_together(part.whys for part in parts), passed, constructions)


def whys_together(parts: Iterable[Mapping[str, Reason]]) -> dict[str, Reason]:
    found: dict[str, Reason] = {}
    for whys in parts:
        for ref, reason in whys.items():
            found[ref] = min(found.get(ref, reason), reason)
    return found
