"""The value of an attribute, marked with the attribute's name and identity."""

from __future__ import annotations

from graphsafe.scan.domain.frozen import replace
from graphsafe.scan.domain.held import held_in
from graphsafe.scan.domain.joins import join_all
from graphsafe.scan.domain.naming import MASK_NAME, where_of
from graphsafe.scan.domain.values import Dict, Number, Tensor, Union, Value
from graphsafe.scan.domain.values import Sequence as SequenceValue

Marked = dict[tuple[str, str], tuple[Value, Value]]
"The attribute and the expression that reads it -> the attribute's value, and the marked value."
_CHANGED = (Tensor, Number, SequenceValue, Dict, Union)
"The kinds of values that can carry the name of an attribute."


def named_attribute(value: Value, text: str, key: str, known: Marked) -> Value:
    """Return an attribute's value, marked as state of the host and with the attribute's name and identity.

    `known` memoises the marked values.
    """
    if not isinstance(value, _CHANGED):
        return value
    before, marked = known.get((key, text), (None, None))
    if before is not value or marked is None:
        marked = _marked(value, text, key)
        known[key, text] = value, marked
    return marked


def _marked(value: Value, text: str, key: str) -> Value:
    if isinstance(value, Tensor):
        name = text.rpartition(".")[2]
        where = where_of(name, value.where)
        dtype = value.dtype
        if dtype is None and MASK_NAME.search(name) and name != "attention_mask":
            dtype = "bool"
        return replace(value, name=text, attr=key, fresh=False, where=where, dtype=dtype)
    if isinstance(value, (Number, SequenceValue, Dict)):
        return held_in(value, key)
    if isinstance(value, Union):
        return join_all(_marked(option, text, key) for option in value.options)
    return value
