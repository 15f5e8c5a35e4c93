"""An attribute's value as an expression sees it."""

from __future__ import annotations

from graphsafe.scan.domain.frozen import replace
from graphsafe.scan.domain.held import held_in
from graphsafe.scan.domain.joins import join
from graphsafe.scan.domain.naming import MASK_NAME, where_of
from graphsafe.scan.domain.values import Dict, Number, Tensor, Union, Value
from graphsafe.scan.domain.values import Sequence as SequenceValue

Marked = dict[str, tuple[Value, Value]]
"Maps an attribute to a container, and to the same container marked as state of that name."
MODULE_ATTRIBUTES: dict[str, Value] = {
    "training": Number(type="bool", overridable_by="attribute"),
}


def named_attribute(value: Value, text: str, key: str, known: Marked) -> Value:
    """Return an attribute's value as an expression sees it: with its name and its identity, and as state of the host.

    `known` memoises the containers that have been marked as state, since marking is the costly part.
    """
    if isinstance(value, Tensor):
        name = text.rpartition(".")[2]
        where = where_of(name, value.where)
        dtype = value.dtype
        if dtype is None and MASK_NAME.search(name) and name != "attention_mask":
            dtype = "bool"
        return replace(value, name=text, attr=key, fresh=False, where=where, dtype=dtype)
    if isinstance(value, Number):
        return held_in(value, key)
    if isinstance(value, (SequenceValue, Dict)):
        before, marked = known.get(key, (None, None))
        if before is not value or marked is None:
            marked = held_in(value, key)
            known[key] = value, marked
        return marked
    if isinstance(value, Union):
        options = [named_attribute(option, text, key, known) for option in value.options]
        result = options[0]
        for option in options[1:]:
            result = join(result, option)
        return result
    return value
