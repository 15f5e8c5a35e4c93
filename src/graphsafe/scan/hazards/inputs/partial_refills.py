"""Finds static inputs that a function refreshes only in part before a replay: `self.x[:n].copy_(x)`. The graph also
reads the rest, which an earlier call has left."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Set

from graphsafe.report.model import Confidence
from graphsafe.scan.hazards.graph_syntax import (
    Function,
    ancestors,
    arguments_of,
    is_plain_replay,
    own,
    parents_in,
    place,
    shared_loop,
    viewed,
    written,
)
from graphsafe.scan.sources.node_memo import inside
from graphsafe.scan.symbols.index import elements

Refill = tuple[ast.Assign | ast.Call, str, Confidence]
"A line that fills an input in part, the input, and the confidence that the graph uses the rest."
_MASK = re.compile(r"mask|valid|allowed|visible", re.I)
"Matches names of inputs that tell the graph which elements count."
_TELLS_LENGTH = re.compile(
    rf"{_MASK.pattern}|len|count|num|size|seen|end|(^|_)pos|cu_|slot|table|index|indices|step|(^|_)n$", re.I
)
"Matches names of inputs that may tell the graph how many elements count."


class PartialRefills:
    """The lines of a function that fill a part of an input before a replay."""

    def __init__(
        self,
        function: Function,
        inputs: Set[str],
        parts: Set[str],
        outputs: Set[str],
        is_before_replay: Callable[[ast.Assign | ast.Call], bool],
        trains: bool,
        mixed: Set[str],
    ) -> None:
        """`parts` are inputs of which captures read parts of variable size. `is_before_replay` tells whether a replay
        follows a line, with no capture in between. `trains` is true if a capture computes gradients. `mixed` are inputs
        of which captures combine the rows."""
        self._function = function
        self._inputs = inputs
        self._parts = parts
        self._outputs = outputs
        self._is_before_replay = is_before_replay
        self._trains = trains
        self._mixed = mixed
        self._parents = parents_in(function)
        self._own = [function, *self._parents]
        self._replays = [*filter(is_plain_replay, own(function, ast.Call))]

    def found(self) -> Iterator[Refill]:
        for node in self._own:
            if isinstance(node, (ast.Assign, ast.Call)):
                yield from self._partly(node)

    def _partly(self, node: ast.Assign | ast.Call) -> Iterator[Refill]:
        target = written(node)
        if not isinstance(target, ast.Subscript) or not _has_end(target.slice):
            return
        text = place(target.value)
        if (
            text is None
            or text not in self._inputs
            or not self._is_before_replay(node)
            or self._rest_written(text, node)
        ):
            return
        sometimes = self._fills_sometimes(node, text)
        # A step writes into the cache at each given slot, so a stale slot number would corrupt another request.
        writes = "slot" in text.rpartition(".")[2]
        if text in self._parts and not (sometimes or writes):
            # If each size has its own graph, a replay reads only the part that is filled. Callers then drop the results
            # of padding rows.
            return
        is_certain = writes or sometimes or self._mixes(target) or self._is_length_unused(target)
        yield node, text, "likely" if is_certain else "possible"

    def _mixes(self, target: ast.Subscript) -> bool:
        """Return whether the graph certainly mixes the filled part of an input with the rest of it.

        A model mixes the columns of a row, such as the times of a signal, unless another input tells it their number. A
        mask is such an input, so a mask whose columns are filled only in part never hides what it once showed. The rows
        are mixed if the host reads an output as one number. They are also mixed if the graph computes gradients or
        combines the rows (`x.mean(0)`), and no other input can tell it which rows count. If there is one row
        (`self.x[0, :n]`) and the function keeps as many columns of the output, the columns may be tokens, which are
        rows to a model.
        """
        name = (place(target.value) or "").rpartition(".")[2].rpartition("[")[2]
        if _is_of_columns(target.slice):
            filled = {name for name in self._filled_names() if _TELLS_LENGTH.search(name)}
            return bool(_MASK.search(name)) or not (filled or self._are_tokens(target.slice))
        if (self._trains or place(target.value) in self._mixed) and not self._tells_rows():
            return True
        later = [one for one in own(self._function, ast.Call) if one.lineno > target.lineno]
        numbers = [one.func.value for one in later if isinstance(one.func, ast.Attribute) and one.func.attr == "item"]
        return any(viewed(value) in self._outputs or _reduced(value) in self._outputs for value in numbers)

    def _tells_rows(self) -> bool:
        """Return whether an input may tell the graph which rows count, by its name or because it is filled as a
        whole. Labels are such an input: `self.labels.fill_(-100)`."""
        targets = [target for node in self._own if isinstance(node, ast.Call) and (target := written(node)) is not None]
        names = {place(target.value if isinstance(target, ast.Subscript) else target) for target in targets}
        whole = {place(target) for target in targets if not isinstance(target, ast.Subscript)}
        return bool(whole & self._inputs) or any(_TELLS_LENGTH.search(name) for name in names & self._inputs if name)

    def _are_tokens(self, index: ast.expr) -> bool:
        """Return whether a slice selects columns of one row, and the function reads an output up to the same end:
        `self.x[0, :n]` and `self.y[:, :n]`."""
        first = elements(index)[0]
        if not (isinstance(first, ast.Constant) and isinstance(first.value, int)):
            return False
        ends = {ast.unparse(end) for end in _ends(index)}
        read = [one for one in own(self._function, ast.Subscript) if place(one.value) in self._outputs]
        return any(not ends.isdisjoint(map(ast.unparse, _ends(one.slice))) for one in read)

    def _filled_names(self) -> Iterator[str]:
        """Yield the last parts of the names of the graph's inputs that the function fills."""
        for node in self._own:
            target = written(node)
            text = viewed(target.value if isinstance(target, ast.Subscript) else target) if target is not None else None
            if text is not None and text in self._inputs:
                yield text.rpartition(".")[2].rpartition("[")[2]

    def _fills_sometimes(self, node: ast.AST, text: str) -> bool:
        """Return whether only some calls fill an input that each replay reads. In such a function, a loop over the
        batch sets a local flag, and the flag decides whether the input is filled."""
        for branch in ancestors(node, self._parents):
            if not isinstance(branch, ast.If) or branch.orelse:
                continue
            within = [*ast.walk(branch)]
            names = {one.id for one in inside(branch.test, ast.Name)}
            set_here = [one.id for one in own(self._function, ast.Name) if isinstance(one.ctx, ast.Store)]
            others = [one for one in self._own if isinstance(one, (ast.Assign, ast.Call)) and one not in within]
            filled = [place(base.value) for one in others if isinstance(base := written(one), ast.Subscript)]
            if (
                any(set_here.count(name) > 1 for name in names)
                and text not in filled
                and not self._inputs.isdisjoint(filled)
                and not any(replay in within for replay in self._replays)
            ):
                return True
        return False

    def _is_length_unused(self, target: ast.Subscript) -> bool:
        """Return whether the function fills one input in part, as in `self.x[:n]`, and uses the length `n` nowhere
        else. It fills other inputs only as a whole, with values that tell no length."""
        ends = _ends(target.slice)
        if len(ends) != 1 or isinstance(ends[0], ast.Constant):
            return False
        # The length is used elsewhere if `n`, `len(x)` or `x.shape[0]` appears again.
        text = ast.unparse(ends[0])
        uses = [node for node in own(self._function, ast.expr) if ast.unparse(node) == text]
        fills = [node for node in self._own if isinstance(node, (ast.Assign, ast.Call)) and self._may_tell(node)]
        read = [node for node in uses if not isinstance(node, ast.Name) or isinstance(node.ctx, ast.Load)]
        return len(read) == 1 and len(fills) == 1

    def _may_tell(self, node: ast.Assign | ast.Call) -> bool:
        """Return whether a line fills an input in part, or an input whose name says that it may tell a length."""
        target = written(node)
        text = place(target.value if isinstance(target, ast.Subscript) else target) if target is not None else None
        is_part = isinstance(target, ast.Subscript)
        return text is not None and text in self._inputs and (is_part or bool(_TELLS_LENGTH.search(text)))

    def _rest_written(self, text: str, part: ast.AST) -> bool:
        """Return whether a line other than `part` writes the whole buffer, or its rest, for the same replays."""
        loops = {None, *ancestors(part, self._parents)}
        for node in self._own:
            if not isinstance(node, (ast.Assign, ast.Call)):
                continue
            if any(shared_loop(node, replay, self._parents) not in loops for replay in self._replays):
                continue  # this line fills the buffer for the replays of another loop
            target = written(node)
            if isinstance(node, ast.Call) and target is not None and place(target) == text:
                return True
            if isinstance(target, ast.Subscript) and place(target.value) == text and not _has_end(target.slice):
                return True
        return False


def _reduced(value: ast.expr) -> str | None:
    """Return the tensor from whose elements an expression computes one number: `self.y` for `self.y.mean()`."""
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Attribute) or arguments_of(value):
        return None
    return place(value.func.value) if value.func.attr in ("sum", "mean", "amax", "amin", "norm") else None


def _ends(index: ast.expr) -> list[ast.expr]:
    return [part.upper for part in elements(index) if isinstance(part, ast.Slice) and part.upper is not None]


def _has_end(index: ast.expr) -> bool:
    """Return whether a slice may end before the buffer ends: `[:n]`, `[0, :n]`."""
    return any(map(_ends_early, elements(index)))


def _is_of_columns(index: ast.expr) -> bool:
    """Return whether a slice with an end selects columns: `[:, :n]`, `[..., :n]`, `[0, :n]`, `[:n, :length]`."""
    return any(map(_ends_early, elements(index)[1:]))


def _ends_early(part: ast.expr) -> bool:
    return isinstance(part, ast.Slice) and part.upper is not None and part.lower is None
