"""The parts of a tensor's index: the dimensions that they drop, whether they gather elements, and whether the host
waits.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import Literal

from graphsafe.report.model import Confidence
from graphsafe.scan.domain.frozen import replace
from graphsafe.scan.domain.naming import MASK_NAME, QUESTION_NAME, last_name
from graphsafe.scan.domain.values import (
    Array,
    NoneValue,
    Number,
    Sequence,
    Tensor,
    Unknown,
    Value,
    as_tensor,
    confidence_of,
    describe,
    options,
)
from graphsafe.scan.execution.frame import Frame
from graphsafe.scan.models.functions.builtin_functions import SLICE
from graphsafe.scan.sources.node_memo import inside
from graphsafe.scan.symbols.index import dotted

_DEVICE = re.compile(r"(^|[._])device$")


def parts_of(index: ast.expr) -> list[ast.expr]:
    return list(index.elts) if isinstance(index, ast.Tuple) else [index]


@dataclass(slots=True)
class Index:
    """The index of `tensor[node.slice]`, for a load or a store. `read` evaluates the parts of the index and sets the
    fields below."""

    frame: Frame
    node: ast.Subscript
    tensor: Tensor
    is_store: bool = False
    dropped: int = 0
    "The number of dimensions that integers drop, minus the number of dimensions that None adds."
    is_known: bool = True
    "Whether `dropped` counts all integers and Nones of the index."
    gathers: Literal["", "step", "other"] = ""
    """If a tensor, list or array gathers elements, this is not empty: `step` for a tensor of the step, `other` for
    anything else."""

    @property
    def is_on_device(self) -> bool:
        return self.tensor.where != "host"

    def read(self) -> Index:
        """Evaluate the parts, and emit their effects on the host and the device."""
        for part in parts_of(self.node.slice):
            if isinstance(part, ast.Slice):
                self._slice(part)
            else:
                self._part(part)
        return self

    def _slice(self, part: ast.Slice) -> None:
        frame = self.frame
        for node in (part.lower, part.upper, part.step):
            if node is None:
                continue
            bound = frame.evaluate(node)
            frame.emit_if_on_device("Extent", "slice", node, bound)
            frame.use_number(bound, "index", node)

    def _part(self, part: ast.expr) -> None:
        value = self.frame.evaluate(part)
        single = options(value)
        spread = single[0] if len(single) == 1 and self._is_spread(part) else None
        if type(spread) is Sequence and spread.kind == "tuple" and spread.items is not None:
            for item in spread.items:
                self._value(part, item)
        else:
            self._value(part, value)

    def _is_spread(self, part: ast.expr) -> bool:
        """Return whether a tuple at this position contains one index for each dimension, as in `x[index]` and `x[...,
        *index]`. At any other position, a tuple counts as a list of indices."""
        return isinstance(part, ast.Starred) or part is self.node.slice

    def _value(self, part: ast.expr, value: Value) -> None:
        single = options(value)
        option = single[0] if len(single) == 1 else value
        index, certain = index_tensor(value, part)
        if type(option) is NoneValue or (isinstance(part, ast.Constant) and part.value is None):
            self.dropped -= 1
        elif type(option) is Number:
            self._number(part, option)
        elif index is not None:
            self._tensor(part, index, certain)
            if index.ndim == 0 and index.dtype != "bool":
                self.dropped += 1
                self.gathers = ""
        elif isinstance(part, ast.Starred) and isinstance(option, Sequence) and _only_places(option.elem):
            self.is_known = False
        elif isinstance(option, Sequence) and self.is_on_device and option.kind != "set":
            self._sequence(part, option)
            self.gathers = "other"
        elif option == SLICE:
            pass
        elif type(option) is Array and self.is_on_device:
            # If code indexes a tensor with an array, the tensor is usually on the host.
            confidence: Confidence = "likely" if self.tensor.where == "device" else "possible"
            self.frame.emit("Transfer", "index", self.node, confidence, None, value="a numpy array")
            self.gathers = "other"
        else:
            self.is_known = False
            if self.is_on_device and not self.is_store:
                emit_mask_by_name(self.frame, self.node, part, option)

    def _number(self, part: ast.expr, index: Number) -> None:
        if index.const is Ellipsis:
            self.is_known = self.is_known and self.tensor.ndim is not None
        elif isinstance(index.const, bool):
            self.dropped -= 1
        else:
            self.dropped += 1
            self.frame.use_number(index, "index", part)

    def _sequence(self, part: ast.expr, index: Sequence) -> None:
        """Evaluate a list of indices, which is sent to the device, or a tuple with one index for each dimension.

        PyTorch treats a list that contains slices or None as a tuple (`x[[None] * 2]`, with a warning in torch 2.13).
        It treats a tuple beside other indices as a list: `x[:, (0, 2)]`.
        """
        is_list = index.kind in ("list", "iterator") or not self._is_spread(part)
        inner, certain = as_tensor(index.elem)
        if SLICE in options(index.elem) or _only_places(index.elem):
            if inner is not None:
                self._tensor(part, inner, certain=True)
        elif inner is None or inner.where == "host":
            if inner is not None and not is_list:
                self._tensor(part, inner, certain)
            elif index.items != () and is_list:
                self.frame.emit("Transfer", "index", self.node, self._sent("likely"), value="a Python list")
        elif index.kind == "tuple":
            self._tensor(part, inner, certain)
        elif inner.ndim == 0:
            self.frame.emit_if_on_device("HostRead", "index", self.node, index.elem)

    def _sent(self, confidence: Confidence) -> Confidence:
        """Return the confidence that an index on the host is sent to the device. If the source does not show where the
        tensor is, and the result is then moved to a device, as in `table[rows].to(x.device)`, the tensor is probably on
        the host too."""
        function = self.frame.node
        if self.tensor.where != "any" or function is None:
            return confidence
        moved = (call.func.value for call in inside(function, ast.Call) if _moves(call))  # type: ignore[attr-defined]
        return "possible" if any(one is self.node for one in moved) else confidence

    def _tensor(self, part: ast.expr, index: Tensor, certain: bool) -> None:
        frame, node, confidence = self.frame, self.node, confidence_of(index, certain)
        self.gathers = "step" if index.step else "other"
        if not self.is_on_device:
            if index.where == "device" and index.dtype != "bool":
                frame.emit("Transfer", "to-host", node, confidence, value=describe(index))
        elif index.where == "host":
            if index.ndim != 0 or index.dtype == "bool":
                frame.emit("Transfer", "index", node, self._sent(confidence), value=describe(index))
        elif index.dtype == "bool":
            if not self.is_store:
                frame.emit("Extent", "mask", node, confidence, value=describe(index))
        elif index.ndim == 0:
            frame.emit("HostRead", "index", part, confidence, value=describe(index))


def _moves(call: ast.Call) -> bool:
    """Return whether a call is `x.to(y.device)` or `x.cuda()`."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in ("to", "cuda"):
        return False
    return call.func.attr == "cuda" or any(_DEVICE.search(dotted(one) or "") for one in call.args)


def _only_places(index: Value) -> bool:
    """Return whether a value is `None` or a slice, neither of which is sent to the device."""
    return all(option == SLICE for option in options(index))


def index_tensor(value: Value, part: ast.expr | None = None) -> tuple[Tensor | None, bool]:
    """Return the tensor that an index is or may be, and whether it certainly is a tensor. An unknown result of a
    comparison counts as a bool tensor, and so does a tensor of unknown dtype if `part` is the name of a mask.
    """
    if type(value) is Unknown and value.compared:
        return Tensor(where="any", dtype="bool", step=value.step), True
    tensor, certain = as_tensor(value)
    if tensor is not None and tensor.dtype is None and part is not None and _names_mask(part):
        tensor = replace(tensor, dtype="bool")
    return tensor, certain


def _names_mask(part: ast.expr) -> bool:
    """Return whether an index has the name of a mask, or is a part of a mask: `is_done`, `batch.mask[:-1]`.

    Calls are excluded, because `mask.nonzero()` gives integers.
    """
    while isinstance(part, ast.Subscript):
        part = part.value
    name = last_name(part)
    return MASK_NAME.search(name) is not None or QUESTION_NAME.match(name) is not None


def emit_mask_by_name(frame: Frame, node: ast.Subscript, part: ast.expr, index: Value) -> None:
    """Emit the effects of a mask if an index has the name of a mask and is the result of an unknown call with device
    tensors."""
    if type(index) is not Unknown or not index.device:
        return
    if isinstance(part, ast.UnaryOp) and isinstance(part.op, ast.Invert):
        name = dotted(part.operand)
        is_mask = name is not None and "mask" in name
    else:
        name = dotted(part)
        is_mask = name is not None and MASK_NAME.search(name) is not None
    if is_mask:
        frame.emit("Extent", "mask", node, value=f"`{name}`")
