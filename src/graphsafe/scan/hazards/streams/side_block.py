"""A `with` statement that sets a side stream, as in `with torch.cuda.stream(side):`, with the calls of its function
before, inside and after the block."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Container, Iterator, Sequence

from graphsafe.scan.hazards.graph_syntax import arguments_of, called_name, following, own, parents_in
from graphsafe.scan.sources.node_memo import inside
from graphsafe.scan.symbols.index import dotted

WAITS = frozenset(("wait_stream", "wait_event", "wait"))
RECORDS = frozenset(("record", "record_event"))
_ON_HOST = frozenset(("len", "int", "float", "range", "tuple", "list", "dict", "time.time"))
"Functions whose results are values of the host."
ATTRIBUTE = re.compile(r"self\.(\w+)(\[.*\])?$")


class SideBlock:
    """A `with` statement that sets a stream, and the calls of its function before, inside and after the block."""

    def __init__(
        self,
        function: ast.FunctionDef | ast.AsyncFunctionDef,
        block: ast.With | ast.AsyncWith,
        stream: ast.expr,
        lines: Sequence[str],
    ) -> None:
        self._function = function
        self._lines = lines
        self._block = block
        self._aliases = {
            target.id: ast.unparse(inner.value)
            for inner in inside(function, ast.Assign)
            for target in inner.targets
            if isinstance(target, ast.Name)
        }
        self.stream = self._text(stream)
        first, last = block.lineno, block.end_lineno or block.lineno
        calls = inside(function, ast.Call)
        self._before = [call for call in calls if call.lineno < first]
        self._inside = [call for call in calls if first <= call.lineno <= last]
        self._after = [call for call in calls if call.lineno > last]

    def is_forked(self) -> bool:
        """Return whether the side stream waits for the step's stream before its first work, or whether a called
        function may make it wait."""
        waits = any(self._calls(WAITS, self.stream))
        return waits or self._handed_over(self._before) or any(name in WAITS for _, name, _ in _methods(self._inside))

    def waits_for_itself(self) -> Iterator[ast.Call]:
        """Yield the waits in the block for the current stream, which is the side stream itself there. They do nothing.
        Nothing is yielded if the side stream also waits before the block."""
        if not any(self._calls(WAITS, self.stream)):
            for call, name, on in _methods(self._inside):
                of = call.args[0] if name == "wait_stream" and call.args and self._text(on) == self.stream else None
                if isinstance(of, ast.Call) and called_name(of) == "current_stream":
                    yield call

    def made_after_fork(self) -> Iterator[tuple[ast.Assign, ast.Call, str]]:
        """Yield the assignments whose values the block reads although the side stream does not wait for them. Each
        comes with the call that makes the value, and with the assigned name.

        The assignments run on the step's stream, after the point for which the side stream waits.
        """
        order = [*self._calls(WAITS, self.stream)]
        if any(name in WAITS for _, name, _ in _methods(self._inside)) or not all(call.args for call, _ in order):
            return
        points = [self._recorded_at(call) if name == "wait_event" else call.lineno for call, name in order]
        read = {one.id for one in inside(self._block, ast.Name) if isinstance(one.ctx, ast.Load)}
        for made in own(self._function, ast.Assign) if points else ():
            if isinstance(made.value, ast.Call) and max(points) < made.lineno < self._block.lineno:
                for target in made.targets:
                    if isinstance(target, ast.Name) and target.id in read:
                        yield made, made.value, target.id

    def _recorded_at(self, wait: ast.Call) -> int:
        """Return the last line before a wait that records the awaited event. If no line records the event, return the
        line of the wait."""
        event = self._text(wait.args[0])
        lines = (call.lineno for call, _ in self._calls(RECORDS, event))
        return max((line for line in lines if line < wait.lineno), default=wait.lineno)

    def read_before_join(self) -> Iterator[ast.Name]:
        """Yield the first read of each result of the block, if the read comes before any wait. Only the statements that
        follow the block directly are searched."""
        made = {
            target.id
            for node in inside(self._block, ast.Assign)
            if isinstance(node.value, ast.Call) and dotted(node.value.func) not in _ON_HOST
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for statement in following(self._block, parents_in(self._function)):
            calls = inside(statement, ast.Call)
            if not isinstance(statement, (ast.Assign, ast.Expr, ast.Return)) or any(map(self._may_order, calls)):
                return
            operands = [one for call in calls if _computes(call) for one in arguments_of(call)]
            operands += [one for node in inside(statement, ast.BinOp) for one in (node.left, node.right)]
            for one in operands:
                if isinstance(one, ast.Name) and one.id in made:
                    made.discard(one.id)
                    yield one

    def _may_order(self, call: ast.Call) -> bool:
        """Return whether a call may make a stream or the host wait, or may pass the side stream on."""
        name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        return name in WAITS or "sync" in name or any(self._text(one) == self.stream for one in arguments_of(call))

    def _calls(self, names: Container[str], receiver: str) -> Iterator[tuple[ast.Call, str]]:
        """Yield the calls of methods with these names on this receiver, before the block."""
        return (
            (call, name) for call, name, on in _methods(self._before) if name in names and self._text(on) == receiver
        )

    def is_joined(self) -> bool:
        """Return whether something waits for the side stream after the block. Also return True if an event is recorded
        on the stream and other code may wait for this event."""
        early = {*map(self._text, self._recorded_early()), *self.unheard()}
        for call in self._after:
            name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
            waited = call.args[0] if call.args else getattr(call.func, "value", call)
            if name == "synchronize" or (
                name in WAITS and self._text(waited) not in early and not self._is_one_of_several(waited)
            ):
                return True
        return self._handed_over(self._after) or any(
            name in RECORDS and self._text(event) not in early
            for _, name, event in _methods([*self._inside, *self._after])
        )

    def unheard(self) -> set[str]:
        """Return the events that are recorded on the stream but never waited for: every line that uses such an event
        only makes or records it. For an attribute of `self`, all lines of the file are searched. For a local name, only
        the function's lines are searched."""
        recorded = [event for _, name, event in _methods([*self._inside, *self._after]) if name == "record"]
        return {text for text in map(self._text, recorded) if self._is_unheard(text)}

    def _is_unheard(self, event: str) -> bool:
        attribute = ATTRIBUTE.fullmatch(event)
        if not event.isidentifier() and (attribute is None or attribute[2]):
            return False
        within = slice(self._function.lineno - 1, self._function.end_lineno)
        name, lines = (attribute[1], self._lines) if attribute is not None else (event, self._lines[within])
        expected = re.compile(rf"\s*(?:self\.)?{name}(?:\.record\(| = [\w.]*Event\()")
        uses = [line for line in lines if re.search(rf"\b{name}\b", line)]
        return any("Event(" in line for line in uses) and all(map(expected.match, uses))

    def _recorded_early(self) -> Iterator[ast.expr]:
        """Yield the events that the block records before a part of its own work."""
        for i, statement in enumerate(self._block.body):
            call = statement.value if isinstance(statement, ast.Expr) else None
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "record":
                further = [inner for later in self._block.body[i + 1 :] for inner in ast.walk(later)]
                names = {name for _, name, _ in _methods([inner for inner in further if isinstance(inner, ast.Call)])}
                if names - WAITS - RECORDS or any(isinstance(inner, ast.BinOp) for inner in further):
                    yield call.func.value

    def _is_one_of_several(self, waited: ast.expr) -> bool:
        """Return whether a loop around the block iterates over several streams and the code waits only for the stream
        at one fixed index."""
        if not (isinstance(waited, ast.Subscript) and isinstance(waited.slice, ast.Constant)):
            return False
        loops = inside(self._function, ast.For)
        around = (loop for loop in loops if loop.lineno < self._block.lineno <= (loop.end_lineno or 0))
        streams = self._text(waited.value)
        return any(streams == ast.unparse(inner) for loop in around for inner in ast.walk(loop.iter))

    def _handed_over(self, calls: list[ast.Call]) -> bool:
        """Return whether the stream is passed to a call that may do anything with it."""
        return any(
            self._text(argument) == self.stream and not (dotted(call.func) or "").endswith("cuda.stream")
            for call in calls
            for argument in arguments_of(call)
            if not (isinstance(call.func, ast.Attribute) and call.func.attr in WAITS and call in self._before)
        )

    def _text(self, node: ast.expr) -> str:
        text = ast.unparse(node)
        for _ in range(4):
            if text not in self._aliases or self._aliases[text] == text or "(" in self._aliases[text]:
                break
            text = self._aliases[text]
        return text


def _computes(call: ast.Call) -> bool:
    """Return whether a call probably computes with its arguments: a PyTorch operation, or a function of the project.
    A constructor, a builtin and a container's method may only store them."""
    name = dotted(call.func) or ""
    if isinstance(call.func, ast.Name):
        return name[:1].islower() and not hasattr(builtins, name)
    return name.startswith(("torch.", "F.", "nn.functional.")) and not name.startswith("torch.cuda.")


def _methods(calls: list[ast.Call]) -> Iterator[tuple[ast.Call, str, ast.expr]]:
    """Yield the method calls, each with the method's name and the receiver."""
    for call in calls:
        if isinstance(call.func, ast.Attribute):
            yield call, call.func.attr, call.func.value
