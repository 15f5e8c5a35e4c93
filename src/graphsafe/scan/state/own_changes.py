"""Changes of state that no assignment shows: a call modifies an attribute's value in place, such as a container or an
iterator that outlives the step, or a clock advances."""

from __future__ import annotations

import ast
import re

from graphsafe.scan.domain.events import span_of
from graphsafe.scan.domain.frozen import replace
from graphsafe.scan.domain.state_log import Write
from graphsafe.scan.domain.summary import Included
from graphsafe.scan.domain.values import UNKNOWN, Dict, Sequence, Tensor, Unknown, Value, as_tensor, of_elements
from graphsafe.scan.execution.frame import Frame
from graphsafe.scan.state.filled_once import is_past_maximum
from graphsafe.scan.state.first_step import too_small
from graphsafe.scan.state.provenance import is_lazy
from graphsafe.scan.symbols.index import dotted

CHANGES = frozenset(
    "append appendleft clear discard extend extendleft insert pop popitem popleft remove reverse rotate".split()
)
"Methods that change the elements of a container, or their order."
_BOUNDED = re.compile(r"\b(\w+)(?::[^=\n]*)? = (?:collections\.)?deque\([^\n]*\bmaxlen\b")
"Matches a deque that drops its oldest element when it is full. The group is its name."
_WITH_MAXLEN = re.compile(r"^.*\bmaxlen\b.*$", re.M)


def own_change(
    frame: Frame,
    node: ast.AST,
    key: str,
    text: str,
    value: Value,
    *,
    reads_self: bool = True,
    keyed: bool = True,
    grows: bool = False,
    outgrown: bool = False,
) -> Write:
    """Return a write for a change of the state `text` by `node`, as if `node` assigned `value` to this state."""
    return Write(
        key=key,
        text=text,
        path=frame.path,
        function=frame.function,
        span=span_of(node),
        value=value,
        before=None,
        augmented=reads_self,
        reads_self=reads_self,
        lazy=False,
        keyed=keyed,
        guard=frame.guard,
        compile_test=frame.compile_test,
        grows=grows,
        outgrown=outgrown,
    )


def note_growth(frame: Frame, call: ast.Call, since: int) -> None:
    """Record the growth of attributes that the called method writes, if the call runs only when these attributes are
    too small: `if length > self.cached: self.set_cache(length)`.

    `since` is the number of items that were recorded before the call.
    """
    if not frame.hot or not frame.lazy or not isinstance(call.func, ast.Attribute):
        return
    owner = dotted(call.func.value)
    for item in frame.engine.effects.items[since:]:
        if type(item) is not Included or owner is None:
            continue
        for write in item.summary.items:
            # The method's `self` is the object that the caller names `owner`.
            if type(write) is Write and not write.keyed and write.text.count(".") == 1:
                attribute = f"{owner}.{write.text.rpartition('.')[2]}"
                if too_small(frame, attribute):
                    frame.engine.note(replace(write, grows=True, outgrown=True, past_maximum=is_past_maximum(frame)))


# containers and iterators


def is_bounded(frame: Frame, key: str, text: str) -> bool:
    """Return whether the attribute `key` holds a deque that cannot grow beyond its `maxlen`. If `text` is an entry of a
    dict, return whether some line names both the dict and `maxlen`."""
    path, _, name = key.partition("::")
    holder = name.partition("[")[0].rpartition(".")[2]
    if "[" in name or text.endswith("]"):
        named = re.compile(rf"\b{re.escape(holder)}\b")
        return any(named.search(line) for line in frame.project.files.search(path, _WITH_MAXLEN))
    return holder in frame.project.files.search(path, _BOUNDED)


def container_changed(frame: Frame, node: ast.Call, container: Sequence | Dict, name: str) -> None:
    """Record that a method changes a list, deque or dict that outlives the step."""
    if not frame.hot or container.held_by is None or name not in CHANGES or not isinstance(node.func, ast.Attribute):
        return
    if type(container) is Dict and name == "popitem":
        return  # a cache drops an entry here; the finding is at the line that fills the cache
    text = ast.unparse(node.func.value)
    if is_lazy(frame, text, None):
        return  # only the first step finds the container empty, and fills it
    elem = container.elem
    if type(elem) is Unknown:
        elem = replace(elem, state=(container.held_by,))
    # A container that the step empties holds only elements from this step.
    value = of_elements("list", UNKNOWN) if name == "clear" else elem
    frame.engine.note(own_change(frame, node, container.held_by, text, value, reads_self=name != "clear"))


def lengthened(frame: Frame, node: ast.AST, key: str, text: str, added: Value) -> None:
    """Record that the state `key`, a list of tensors, gets longer in each step. The graph contains only the tensors of
    the capture."""
    if as_tensor(added)[0] is None:
        return
    grows = not is_bounded(frame, key, text)
    if not grows and type(added) is Tensor:
        # The deque keeps its length, but each of its positions holds another tensor in the next step.
        added = replace(added, fresh=True)
    frame.engine.note(own_change(frame, node, key, text, added, grows=grows))


def advanced(frame: Frame, node: ast.Call, iterator: Value) -> None:
    """Emit an event for `next(self.rates)`, because a replay does not advance the iterator."""
    if type(iterator) is not Sequence or iterator.kind != "iterator" or iterator.held_by is None or not node.args:
        return
    text = ast.unparse(node.args[0])
    frame.emit("AttrWrite", "host-state", node, attribute=text, value="the next element of an iterator")
